"""A pytest plugin that tells how much of the tests ran, here and in the trainer's own tests.

On a laptop, tests that need a service which is not there are left out, and named. In CI nothing
may be left out, skipped, or expected to fail: any of these fails the run.
"""

import os
import shutil

import pytest

IS_CI = os.environ.get("CI", "").lower() in {"1", "true"}
SERVICES = ("postgres", "redis", "browser", "gettext")

LEFT_OUT = pytest.StashKey[int]()
COLLECTED = pytest.StashKey[int]()


def missing_services():
    from tests import settings  # the trainer's tests never get here: they need no service

    missing = []
    if not settings.HAS_POSTGRES:
        missing.append("postgres")
    if not settings.HAS_REDIS:
        missing.append("redis")
    if not (shutil.which("chromium") or shutil.which("chromium-browser")):
        missing.append("browser")
    if not shutil.which("xgettext"):
        missing.append("gettext")
    return missing


def pytest_collection_modifyitems(config, items):
    config.stash[LEFT_OUT] = 0
    needing = [item for item in items if any(map(item.get_closest_marker, SERVICES))]
    if needing and not IS_CI:
        missing = missing_services()
        dropped = [item for item in needing if any(map(item.get_closest_marker, missing))]
        if dropped:
            config.hook.pytest_deselected(items=dropped)
            gone = set(dropped)
            items[:] = [item for item in items if item not in gone]
        config.stash[LEFT_OUT] = len(dropped)


def pytest_collection_finish(session):
    if session.items:
        session.config.stash[COLLECTED] = len(session.items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_node_collection_finished(node, ids):
    node.config.stash[COLLECTED] = len(ids)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session, exitstatus):
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["left_out"] = config.stash.get(LEFT_OUT, 0)
    elif IS_CI and exitstatus == 0 and odd_of(config):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node, error):
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


def odd_of(config):
    """What must not be in CI: kinds of outcome with their numbers."""
    stats = config.pluginmanager.get_plugin("terminalreporter").stats
    kinds = ("skipped", "xfailed", "xpassed", "deselected")
    odd = {kind: len(stats[kind]) for kind in kinds if stats.get(kind)}
    collected, passed = config.stash.get(COLLECTED, 0), len(stats.get("passed", []))
    if collected != passed:
        odd["not passed"] = collected - passed
    return odd


def pytest_terminal_summary(terminalreporter, config):
    left_out = config.stash.get(LEFT_OUT, 0)
    if left_out:
        terminalreporter.write_line(
            f"{left_out} tests were left out, for want of: {', '.join(missing_services())}."
        )
    passed = len(terminalreporter.stats.get("passed", []))
    terminalreporter.write_line(f"collected {config.stash.get(COLLECTED, 0)}, passed {passed}")
    for kind, number in odd_of(config).items():
        if IS_CI:
            terminalreporter.write_line(f"not allowed in CI: {number} {kind}")
