"""What a stream holds, from where on, and in which form: over HTTP, on each database."""

import pytest

from tests.factories import end_job, make_job
from tests.training.feed.feed_events import append_progress, seqs_of
from training.contract import REPORT_TYPES, parse_report
from training.events import append_events, append_server_event

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


@pytest.fixture
def job(any_db):
    """A job with the events 0 to 9."""
    job = make_job(db=any_db)
    append_progress(job, range(1, 10), db=any_db)
    return job


P07 = [
    pytest.param({}, range(10), id="P07-1"),
    pytest.param({"last_id": "4"}, range(5, 10), id="P07-2"),
    pytest.param({"from_": 5}, range(5, 10), id="P07-3"),
    pytest.param({"last_id": "4", "from_": 0}, range(5, 10), id="P07-4"),
    pytest.param({"last_id": "9"}, [], id="P07-5"),
]


@pytest.mark.parametrize(("where", "wanted"), P07)
def test_a_stream_replays_from_where_it_was_asked_to_and_goes_on(
    open_feed, any_db, job, where, wanted
):
    stream = open_feed(run_id=job.pk, db=any_db, **where)
    stored = stream.events(len(wanted))

    append_progress(job, [10], db=any_db)

    assert seqs_of(stored + stream.events(1)) == [*wanted, 10]


NONSENSE = ["abc", "-1", "4.5", "0x4", "", "1e3", "٤", "+4", "4_0"]
BEYOND = ["999", "99999999999999999999999", "9" * 5000]


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_p09_a_last_event_id_that_is_no_number_is_as_if_absent(open_feed, any_db, job, value):
    stream = open_feed(run_id=job.pk, db=any_db, last_id=value.encode().decode("latin-1"))

    assert seqs_of(stream.events(10)) == list(range(10))


@pytest.mark.parametrize("value", BEYOND, ids=len)
def test_p09_a_last_event_id_beyond_the_end_waits_at_the_end(open_feed, any_db, job, value):
    stream = open_feed(run_id=job.pk, db=any_db, last_id=value)
    assert stream.next().comment == "keepalive"

    append_progress(job, [10], db=any_db)

    assert seqs_of(stream.events(1)) == [10]


def test_p09_blanks_around_a_last_event_id_do_not_count(open_feed, any_db, job):
    stream = open_feed(run_id=job.pk, db=any_db, last_id="  4 ")

    assert seqs_of(stream.events(5)) == [5, 6, 7, 8, 9]


@pytest.mark.parametrize("value", ["-3", "xyz", "", "2.0"])
def test_p09_a_from_that_is_no_number_is_as_if_absent(open_feed, any_db, job, value):
    stream = open_feed(run_id=job.pk, db=any_db, from_=value)

    assert seqs_of(stream.events(10)) == list(range(10))


def test_a_from_counts_when_the_last_event_id_is_nonsense(open_feed, any_db, job):
    stream = open_feed(run_id=job.pk, db=any_db, from_=7, last_id="abc")

    assert seqs_of(stream.events(3)) == [7, 8, 9]


def test_a_from_beyond_the_end_waits_at_the_end(open_feed, any_db, job):
    stream = open_feed(run_id=job.pk, db=any_db, from_=5000)
    assert stream.next().comment == "keepalive"

    append_progress(job, [10], db=any_db)

    assert seqs_of(stream.events(1)) == [10]


def test_a_message_has_the_report_and_the_servers_own_keys(open_feed, any_db):
    job = make_job(db=any_db)
    append_progress(job, [1], db=any_db, epoch=0.3, note="kept")

    queued, progress = open_feed(run_id=job.pk, db=any_db).events(2)

    assert (queued.id, queued.event) == ("0", "status")
    assert queued.data["status"] == "queued"
    assert (progress.id, progress.event) == ("1", "progress")
    created_at = progress.data.pop("created_at")
    assert created_at == job.events.using(any_db).get(seq=1).created_at.strftime(
        "%Y-%m-%dT%H:%M:%SZ"
    )
    assert progress.data == {
        "db": "standard" if any_db == "default" else any_db,
        "run_id": job.pk,
        "job_id": job.job_id,
        "seq": 1,
        "type": "progress",
        "attempt": 1,
        "step": 1,
        "loss": 1.5,
        "epoch": 0.3,
        "note": "kept",
    }


def test_the_servers_own_keys_win_over_those_of_a_report(open_feed, any_db):
    job = make_job(db=any_db)
    lies = {"db": "other", "run_id": -1, "job_id": "x", "attempt": 9, "created_at": "never"}
    append_events(job.pk, [parse_report({"type": "progress", "seq": 0, **lies})], db=any_db)

    told = open_feed(run_id=job.pk, db=any_db, from_=1).events(1)[0].data

    assert told["run_id"] == job.pk
    assert told["job_id"] == job.job_id
    assert told["attempt"] == 1
    assert told["db"] != "other"
    assert told["created_at"] != "never"


def test_every_type_of_event_is_streamed_under_its_name(open_feed, any_db):
    job = make_job(db=any_db)
    stream = open_feed(run_id=job.pk, db=any_db, from_=1)
    reports = [
        {"type": type_, "boot": "b", "seq": n, "status": "running", "text": "a\nb\r\nid: 7\n\n"}
        for n, type_ in enumerate(REPORT_TYPES)
    ]

    append_events(job.pk, [parse_report(report) for report in reports], db=any_db)

    told = stream.events(len(REPORT_TYPES))
    assert [message.event for message in told] == list(REPORT_TYPES)
    assert [message.data["type"] for message in told] == list(REPORT_TYPES)
    assert told[2].data["text"] == "a\nb\r\nid: 7\n\n"


def test_numbers_that_json_does_not_have_are_null(open_feed, any_db):
    job = make_job(db=any_db)
    append_progress(job, [1], db=any_db, grad_norm=float("nan"))

    told = open_feed(run_id=job.pk, db=any_db, from_=1).events(1)[0].data

    assert told["grad_norm"] is None


def test_a_stream_stays_open_after_the_end_of_its_job(open_feed, any_db):
    job = make_job(db=any_db)
    stream = open_feed(run_id=job.pk, db=any_db)

    end_job(job, "cancelled", db=any_db)
    assert [message.data["status"] for message in stream.events(2)] == ["queued", "cancelled"]
    append_progress(job, [5], db=any_db)

    assert stream.events(1)[0].data["step"] == 5


def test_a_burst_larger_than_what_may_wait_is_no_reason_to_disconnect(open_feed, any_db):
    job = make_job(db=any_db)
    stream = open_feed(run_id=job.pk, db=any_db)
    for first in range(0, 2000, 500):
        append_progress(job, range(first, first + 500), db=any_db)

    assert seqs_of(stream.events(2001)) == list(range(2001))


def test_jobs_with_one_number_in_two_databases_have_streams_of_their_own(open_feed):
    first = make_job(db="default", events=False, id=77_001)
    second = make_job(db="second", events=False, id=77_001)
    stream = open_feed(run_id=77_001, db="second")

    append_server_event(first.pk, "warning", db="default", text="first")
    append_server_event(second.pk, "warning", db="second", text="second")

    told = stream.events(1)[0].data
    assert (told["text"], told["db"], told["job_id"]) == ("second", "second", second.job_id)
