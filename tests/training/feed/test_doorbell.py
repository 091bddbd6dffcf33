"""Rings: heard from other connections, not lost between two waits, not needed."""

import threading

import pytest
from django.db import connections

from tests.factories import make_job
from tests.training.feed.feed_events import append_progress
from training.feed import doorbell
from training.feed.doorbell import open_bell

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")
FAR_TOO_LONG = 300


def db_of(setup):
    return "default" if setup == "sqlite" else "pg"


def test_a_commit_elsewhere_ends_a_wait(setup):
    db = db_of(setup)
    job = make_job(db=db)
    listening, woken = threading.Event(), threading.Event()

    def wait():
        with open_bell(db) as bell:
            bell.wait(0)
            bell.wait(0)
            listening.set()
            bell.wait(FAR_TOO_LONG)
            woken.set()
        connections.close_all()

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert listening.wait(timeout=30)
    append_progress(job, [1], db=db)

    assert woken.wait(timeout=30)
    thread.join()


def test_a_ring_between_two_waits_is_heard_by_the_next(setup):
    db = db_of(setup)
    job = make_job(db=db)

    with open_bell(db) as bell:
        bell.wait(0)
        bell.wait(0)
        in_a_thread(append_progress, job, [1], db=db)
        bell.wait(FAR_TOO_LONG)


def in_a_thread(function, *args, **named):
    def call():
        function(*args, **named)
        connections.close_all()

    thread = threading.Thread(target=call)
    thread.start()
    thread.join()


@pytest.mark.postgres
def test_a_redis_that_is_away_neither_stops_the_writer_nor_the_waiting(settings):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    job = make_job(db="pg")

    append_progress(job, [1], db="pg")
    with open_bell("pg") as bell:
        bell.wait(0)
        bell.wait(0)

    assert job.events.using("pg").count() == 2


@pytest.mark.postgres
def test_a_postgres_connection_that_breaks_is_made_anew():
    job = make_job(db="pg")

    with open_bell("pg") as bell:
        bell.wait(0)
        with connections["pg"].cursor() as cursor:
            cursor.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE datname = current_database() AND query LIKE 'LISTEN%%'"
            )
        for _ in range(3):  # notices, connects, listens
            bell.wait(0.1)
        in_a_thread(append_progress, job, [1], db="pg")
        bell.wait(FAR_TOO_LONG)


def test_nothing_rings_when_nothing_was_stored(setup, monkeypatch):
    db = db_of(setup)
    job = make_job(db=db)
    append_progress(job, [1], db=db)
    rings = []
    monkeypatch.setattr(doorbell, "ring_on_commit", lambda *ring: rings.append(ring))

    append_progress(job, [1], db=db)

    assert rings == []
