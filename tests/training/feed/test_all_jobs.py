"""The stream of every job of a database: live only, without ids."""

import pytest

from tests.factories import make_job
from tests.training.feed.feed_events import append_progress
from training.events import append_server_event

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


def test_it_tells_what_happens_from_now_on_without_ids(open_feed, any_db):
    earlier = open_feed(db=any_db)
    assert earlier.next().comment == "keepalive"
    old = make_job(db=any_db)
    earlier.events(1)  # so that it is over, here and for the web process
    stream = open_feed(db=any_db, last_id="0", from_=0)
    assert stream.next().comment == "keepalive"

    append_progress(old, [1], db=any_db)
    new = make_job(db=any_db)

    told = stream.events(2)
    assert [(m.data["run_id"], m.event) for m in told] == [
        (old.pk, "progress"),
        (new.pk, "status"),
    ]
    assert [message.id for message in told] == [None, None]
    assert told[1].data["seq"] == 0


def test_it_tells_of_one_database_only(open_feed):
    here, there = make_job(db="default"), make_job(db="second")
    stream = open_feed(db="second")
    assert stream.next().comment == "keepalive"

    append_server_event(here.pk, "warning", db="default", text="here")
    append_server_event(there.pk, "warning", db="second", text="there")

    assert stream.events(1)[0].data["text"] == "there"


def test_a_burst_reaches_a_reader_that_keeps_up(open_feed, any_db):
    first, second = make_job(db=any_db), make_job(db=any_db)
    stream = open_feed(db=any_db)
    assert stream.next().comment == "keepalive"

    append_progress(first, range(500), db=any_db)
    append_progress(second, range(500), db=any_db)

    told = {first.pk: [], second.pk: []}
    while [seqs[-1:] for seqs in told.values()] != [[500], [500]]:
        data = stream.events(1)[0].data
        told[data["run_id"]].append(data["seq"])
    assert [seqs[-500:] for seqs in told.values()] == [list(range(1, 501))] * 2
    assert [len(seqs) - len(set(seqs)) for seqs in told.values()] == [0, 0]
