"""Readers that read nothing, many readers, and what they cost."""

import pytest
from django.db import connections

from tests.factories import make_job
from tests.training.feed.feed_events import append_progress, seqs_of
from tests.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")

NUM_EVENTS = 1000
PADDING = "x" * 8_000  # so that the events fill the buffers of the system


def test_p15_a_reader_that_stops_reading_is_cut_off_and_catches_up(open_feed, any_db, web):
    job = make_job(db=any_db)
    cuts_before = _num_cuts(web)
    stopped = open_feed(run_id=job.pk, db=any_db, from_=1, buffer_bytes=4096, timeout=30)
    healthy = open_feed(run_id=job.pk, db=any_db, from_=1, timeout=30)

    seen = []
    for first in range(1, NUM_EVENTS + 1, 100):
        append_progress(job, range(first, first + 100), db=any_db, text=PADDING)
        seen += seqs_of(healthy.events(100))  # is not held up by the other
    eventually(lambda: _num_cuts(web) > cuts_before)
    before = seqs_of(stopped.until_closed())
    back = open_feed(run_id=job.pk, db=any_db, last_id=str(before[-1]) if before else "0")
    after = seqs_of(back.events(NUM_EVENTS - len(before)))

    assert seen == list(range(1, NUM_EVENTS + 1))
    assert len(after) > 0
    assert before + after == list(range(1, NUM_EVENTS + 1))


def _num_cuts(web):
    return web.log.read_text().count("is cut off")


@pytest.mark.postgres
def test_open_streams_hold_few_database_connections(open_feed):
    job = make_job(db="pg")
    streams = [open_feed(run_id=job.pk, db="pg") for _ in range(60)]
    for stream in streams:
        stream.events(1)

    append_progress(job, [1], db="pg")
    for stream in streams:
        stream.events(1)

    with connections["pg"].cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()")
        # The pool of the web process (16 at most), its LISTEN and this test's own.
        assert cursor.fetchone()[0] <= 18
