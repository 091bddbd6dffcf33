"""Whether the installation says truly that it is up and able to work."""

import pytest
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder

from gligabao import health

READY = {
    "status": "ready",
    "databases": {"standard": "ok", "second": "ok"},
    "broker": "ok",
}


@pytest.fixture
def two_databases(monkeypatch):
    monkeypatch.setattr(health, "database_aliases", lambda: ["default", "second"])


@pytest.mark.django_db(databases=["default", "second"])
def test_installation_is_ready_without_a_login(client, two_databases):
    answer = client.get("/readyz")

    assert (answer.status_code, answer.json()) == (200, READY)


@pytest.mark.django_db(databases=["default", "second"])
def test_missing_migration_is_named_with_its_database(client, two_databases):
    second = connections["second"]
    (newest,) = MigrationLoader(second).graph.leaf_nodes("training")
    MigrationRecorder(second).record_unapplied(*newest)

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json() == READY | {
        "status": "not ready",
        "databases": {"standard": "ok", "second": "migrations missing"},
    }


@pytest.mark.django_db(databases=["default", "second"])
def test_database_that_does_not_answer_is_named(client, two_databases, monkeypatch, tmp_path):
    monkeypatch.setitem(connections["second"].settings_dict, "NAME", str(tmp_path / "no" / "db"))
    connections["second"].close()

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["databases"]["second"] == "no answer"


@pytest.mark.django_db(databases=["default", "second"])
def test_broker_that_does_not_answer_is_named(client, two_databases, settings):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"

    answer = client.get("/readyz")

    assert answer.status_code == 503
    assert answer.json()["broker"] == "no answer"


def test_process_is_up_whatever_else_is_not(client, settings):
    settings.REDIS_URL = "redis://127.0.0.1:9/0"

    answer = client.get("/healthz")

    assert (answer.status_code, answer.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("address", ["/healthz", "/readyz"])
def test_only_reading_is_allowed(client, address):
    assert client.post(address).status_code == 405
