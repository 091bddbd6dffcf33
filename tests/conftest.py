"""Fixtures that many tests share."""

import shutil

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.test import Client
from django.utils import translation
from rest_framework.test import APIClient

from gligabao.access import ROLES
from tests.fakes import FakeProvider
from training import providers

DB_ALIASES = [
    pytest.param("default", id="sqlite"),
    pytest.param("pg", id="postgres", marks=pytest.mark.postgres),
]


@pytest.fixture(autouse=True)
def _default_language():
    """A request in another language leaves its thread in that language."""
    translation.deactivate()


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
def client_as(user_with_role):
    """Makes browsers that are logged in: client_as("viewer")."""

    def make(role, **defaults):
        client = Client(raise_request_exception=False, **defaults)
        client.force_login(user_with_role(role))
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
