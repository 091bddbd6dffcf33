"""A job's series, read from what is kept of them and from the events since."""

import pytest

from tests.factories import make_job
from training.contract import parse_report
from training.events import append_events
from training.models import JobSeries
from training.series import KEEP_AFTER, job_series, keep_series, read_series

pytestmark = pytest.mark.django_db(databases=["default", "pg"])


def report(job, db, *reports, start=0):
    numbered = [{"boot": "b", "seq": start + n, **one} for n, one in enumerate(reports)]
    append_events(job.pk, [parse_report(one) for one in numbered], db=db)
    job.refresh_from_db(using=db)


def progress(start, stop, **data):
    return [{"type": "progress", "step": n, "loss": n / 7, **data} for n in range(start, stop)]


def test_what_is_no_number_is_a_gap():
    job = make_job()
    odd = [1.5, "x", [1], {"a": 1}, True, 10**30, 2]
    report(
        job,
        "default",
        *({"type": "progress", "step": n, "grad_norm": v} for n, v in enumerate(odd)),
    )

    series = job_series(job, db="default", points=100)["series"]

    assert series["grad_norm"] == [
        [0, 1.5], [1, None], [2, None], [3, None], [4, None], [5, None], [6, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("odd", ["x", [1], {"a": 1}])
def test_a_series_with_gaps_can_be_thinned(odd):
    job = make_job()
    values = [odd if step % 3 else float(step) for step in range(100)]
    report(
        job,
        "default",
        *({"type": "progress", "step": n, "grad_norm": v} for n, v in enumerate(values)),
    )

    kept = job_series(job, db="default", points=10)["series"]["grad_norm"]

    assert 0 < len(kept) <= 12


def test_short_run_keeps_nothing_beside_its_events(any_db):
    job = make_job(db=any_db)
    report(job, any_db, *progress(1, 10))

    assert len(read_series(job, db=any_db)["loss"]) == 9
    assert not JobSeries.objects.using(any_db).exists()


def test_long_run_is_read_once(any_db, django_assert_num_queries):
    job = make_job(db=any_db, num_train_steps=5000)
    report(job, any_db, *progress(1, KEEP_AFTER + 50))
    fresh = read_series(job, db=any_db)
    assert JobSeries.objects.using(any_db).get().next_seq == job.next_seq

    with django_assert_num_queries(2, using=any_db):
        assert read_series(job, db=any_db) == fresh

    report(job, any_db, *progress(KEEP_AFTER + 50, KEEP_AFTER + 60), start=KEEP_AFTER + 50)
    longer = read_series(job, db=any_db)
    JobSeries.objects.using(any_db).all().delete()
    assert read_series(job, db=any_db) == longer
    assert len(longer["loss"]) > len(fresh["loss"])


def test_whoever_comes_second_changes_nothing(any_db):
    job = make_job(db=any_db, num_train_steps=5000)
    report(job, any_db, *progress(1, KEEP_AFTER + 50))
    read_series(job, db=any_db)
    kept = JobSeries.objects.using(any_db).get()
    JobSeries.objects.using(any_db).update(next_seq=0, data={})
    late = make_job(db=any_db)  # another job's row is not touched

    read_series(job, db=any_db)

    # Somebody else had gone on from another place: their row stays as it was.
    assert JobSeries.objects.using(any_db).get(run=job).next_seq == 0
    assert not JobSeries.objects.using(any_db).filter(run=late).exists()
    JobSeries.objects.using(any_db).filter(run=job).update(next_seq=kept.next_seq, data=kept.data)
    assert read_series(job, db=any_db)["loss"][0] == (1, 1 / 7)


def test_worker_keeps_what_is_far_behind(any_db):
    job = make_job(db=any_db, num_train_steps=5000)
    report(job, any_db, *progress(1, 20))
    keep_series(job, db=any_db)
    assert not JobSeries.objects.using(any_db).exists()

    report(job, any_db, *progress(20, KEEP_AFTER + 50), start=20)
    keep_series(job, db=any_db)

    assert JobSeries.objects.using(any_db).get().next_seq == job.next_seq
