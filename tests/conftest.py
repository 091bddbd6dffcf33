"""Fixtures that many tests share, and what happens when a service is not there."""

import shutil

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from rest_framework.test import APIClient

from gligabao.access import ROLES
from tests import settings as test_settings
from tests.fakes import FakeProvider
from training import providers

SERVICE_OF_MARK = {"postgres": "HAS_POSTGRES", "redis": "HAS_REDIS"}
HAS_CHROMIUM = bool(shutil.which("chromium") or shutil.which("chromium-browser"))


def _missing() -> dict[str, bool]:
    missing = {mark: not getattr(test_settings, flag) for mark, flag in SERVICE_OF_MARK.items()}
    return missing | {"browser": not HAS_CHROMIUM}


def pytest_collection_modifyitems(config, items):
    """On a laptop, leave out what needs a service that is not there, and name it. Never in CI."""
    if test_settings.IS_CI:
        return
    missing = {mark for mark, is_missing in _missing().items() if is_missing}
    dropped = [item for item in items if missing & {mark.name for mark in item.iter_markers()}]
    if dropped:
        config.hook.pytest_deselected(items=dropped)
        kept = set(items) - set(dropped)
        items[:] = [item for item in items if item in kept]
        config.stash_deselected = (sorted(missing), len(dropped))


def pytest_terminal_summary(terminalreporter, config):
    if hasattr(config, "stash_deselected"):
        missing, number = config.stash_deselected
        terminalreporter.write_line(
            f"{number} tests were left out: {', '.join(missing)} not found on this machine."
        )
    stats = terminalreporter.stats
    passed = len(stats.get("passed", []))
    collected = terminalreporter._numcollected
    terminalreporter.write_line(f"collected {collected}, passed {passed}")


def pytest_sessionfinish(session, exitstatus):
    """In CI nothing is skipped, expected to fail, or left out."""
    if not test_settings.IS_CI or hasattr(session.config, "workerinput"):
        return
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")
    odd = {
        kind: len(reporter.stats.get(kind, []))
        for kind in ("skipped", "xfailed", "xpassed", "deselected")
    }
    if any(odd.values()) and exitstatus == 0:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


DB_ALIASES = [
    pytest.param("default", id="sqlite"),
    pytest.param("pg", id="postgres", marks=pytest.mark.postgres),
]


@pytest.fixture(params=DB_ALIASES)
def any_db(request):
    """Each kind of database in turn."""
    return request.param


@pytest.fixture
def user_with_role(db):
    """Makes users: user_with_role("trainer")."""

    def make(role, name=None):
        assert role in ROLES
        user = User.objects.create_user(name or f"{role}-user", password="a-long-password")
        user.groups.add(Group.objects.get_or_create(name=role)[0])
        return user

    return make


@pytest.fixture
def api_as(user_with_role):
    """Makes API clients: api_as("viewer")."""
    from knox.models import AuthToken

    def make(role, name=None):
        client = APIClient()
        _, token = AuthToken.objects.create(user_with_role(role, name))
        client.credentials(HTTP_AUTHORIZATION=f"Bearer {token}")
        return client

    return make


@pytest.fixture
def fake_provider(monkeypatch):
    """The provider `local`, replaced by one that a test plays."""
    fake = FakeProvider()
    monkeypatch.setitem(providers.PROVIDERS, "local", lambda: fake)
    providers.get_provider.cache_clear()
    yield fake
    providers.get_provider.cache_clear()


@pytest.fixture(scope="session", autouse=True)
def _remove_test_data():
    yield
    shutil.rmtree(settings.DATA_DIR, ignore_errors=True)
