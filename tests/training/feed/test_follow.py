"""Following a job from a command."""

import threading

import pytest
from django.db import connections

from gligabao.errors import NotFound
from tests.factories import end_job, make_job
from tests.training.feed.feed_events import append_progress
from training.feed.follow import follow_events

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


def test_it_yields_what_is_stored_then_what_arrives_and_ends_with_the_job(any_db):
    job = make_job(db=any_db)
    append_progress(job, range(1, 600), db=any_db)

    def go_on():
        append_progress(job, [600], db=any_db)
        end_job(job, "cancelled", db=any_db)
        connections.close_all()

    writer = threading.Thread(target=go_on)
    followed = []
    for event in follow_events(job.pk, db=any_db):
        followed.append(event)
        if event.seq == 599:
            writer.start()
    writer.join()

    assert [event.seq for event in followed] == list(range(602))
    assert followed[-1].is_final


def test_it_begins_where_it_is_told_to(any_db):
    job = make_job(db=any_db)
    append_progress(job, range(1, 4), db=any_db)
    end_job(job, "cancelled", db=any_db)

    assert [event.seq for event in follow_events(job.pk, db=any_db, from_seq=3)] == [3, 4]
    assert list(follow_events(job.pk, db=any_db, from_seq=50)) == []


def test_without_until_final_it_goes_on_after_the_end(any_db):
    job = make_job(db=any_db)
    end_job(job, "cancelled", db=any_db)
    following = follow_events(job.pk, db=any_db, until_final=False)
    assert [next(following).seq, next(following).seq] == [0, 1]

    append_progress(job, [1], db=any_db)

    assert next(following).seq == 2
    following.close()


def test_an_unknown_job_is_an_error(any_db):
    with pytest.raises(NotFound, match="424242"):
        next(follow_events(424242, db=any_db))
