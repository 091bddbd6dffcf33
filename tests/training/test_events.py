"""append_events(): the one door, on each kind of database."""

import threading

import pytest
from django.db import IntegrityError, connections, transaction

from tests.factories import end_job, make_job, token_of
from tests.refold import refold
from training.contract import parse_report, server_event
from training.events import append_events
from training.models import JobAttempt, JobEvent, TrainingJob
from training.projections import FIELDS

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


def report(seq=None, boot="b1", type="progress", **data):
    raw = {"type": type, "boot": boot, **data}
    if seq is not None:
        raw["seq"] = seq
    return parse_report(raw)


def status(seq, word, boot="b1", **data):
    return report(seq, boot, "status", status=word, **data)


def refolded(job, db):
    return refold(JobEvent.objects.using(db).filter(run=job).order_by("seq"))


def append(job, *reports, db):
    appended = append_events(job.pk, list(reports), db=db)
    job.refresh_from_db(using=db)
    return appended


def test_events_are_numbered_without_gaps_from_the_first(any_db):
    job = make_job(any_db)

    append(job, status(0, "running"), report(1, step=1, loss=2.0), db=any_db)
    append(job, report(2, step=2, loss=1.9), db=any_db)

    seqs = JobEvent.objects.using(any_db).filter(run=job).values_list("seq", flat=True)
    assert list(seqs.order_by("seq")) == [0, 1, 2, 3]
    assert job.next_seq == 4


def test_a_repeat_is_dropped_and_counted(any_db):
    job = make_job(any_db)
    first = report(0, step=1, loss=2.0)
    append(job, first, db=any_db)

    appended = append(job, first, first, report(1, step=2, loss=1.5), db=any_db)

    assert (appended.accepted, appended.duplicates) == (1, 2)
    assert job.last_step == 2


def test_an_unnumbered_repeat_is_dropped_but_log_lines_are_kept(any_db):
    job = make_job(any_db)
    line = report(None, type="log", text="the same line")
    same = report(None, step=1, loss=2.0)

    appended = append(job, line, line, same, same, db=any_db)

    assert (appended.accepted, appended.duplicates) == (3, 1)


def test_unnumbered_reports_fold_by_arrival(any_db):
    job = make_job(any_db)

    append(job, report(None, step=5, loss=2.0), report(None, step=3, loss=1.0), db=any_db)

    assert (job.last_step, job.last_loss) == (3, 1.0)


def test_the_row_folds_by_the_trainers_numbers_not_by_arrival(any_db):
    job = make_job(any_db)

    append(job, status(0, "running"), report(5, step=50, loss=1.5), db=any_db)
    append(job, report(4, step=40, loss=1.9), status(1, "training"), db=any_db)

    assert (job.last_step, job.last_loss, job.status) == (50, 1.5, "training")


def test_a_status_never_moves_back_within_an_attempt(any_db):
    job = make_job(any_db)
    append(job, status(1, "training"), db=any_db)

    append(job, status(0, "running"), db=any_db)

    assert job.status == "training"
    stored = JobEvent.objects.using(any_db).get(run=job, source_seq=0)
    assert stored.data["status"] == "training"
    assert stored.data["reported"] == "running"


def test_a_new_boot_opens_the_next_attempt_before_its_first_report(any_db):
    job = make_job(any_db)
    append(job, status(0, "training"), report(1, step=30, loss=1.0), db=any_db)

    append(job, status(0, "running", boot="b2"), report(1, "b2", step=20, loss=1.2), db=any_db)

    assert (job.attempt, job.status, job.last_step) == (2, "running", 20)
    kinds = JobEvent.objects.using(any_db).filter(run=job).order_by("seq")
    assert [(event.source, event.attempt) for event in kinds] == [
        ("server", 1), ("trainer", 1), ("trainer", 1),
        ("server", 2), ("trainer", 2), ("trainer", 2),
    ]  # fmt: skip


def test_late_reports_of_an_older_attempt_change_neither_status_nor_outcome(any_db):
    job = make_job(any_db)
    append(job, status(0, "training"), db=any_db)
    append(job, status(0, "running", boot="b2"), db=any_db)

    append(job, status(1, "failed", error="late"), report(2, step=99, loss=9.0), db=any_db)

    assert (job.status, job.outcome, job.error) == ("running", "", "")


def test_an_attempt_that_the_poll_saw_first_takes_the_boot(any_db):
    job = make_job(any_db)
    append(job, status(0, "training"), db=any_db)
    JobAttempt.objects.using(any_db).create(run=job, attempt=2, boot=None)
    append(job, server_event("status", status="started", attempt=2), db=any_db)

    append(job, status(0, "running", boot="b2"), db=any_db)

    assert (job.attempt, job.status) == (2, "running")
    assert JobAttempt.objects.using(any_db).filter(run=job).count() == 2


def test_after_a_stop_no_new_attempt_counts(any_db):
    job = make_job(any_db)
    append(job, status(0, "training"), db=any_db)
    append(job, server_event("status", status="training", is_stopping=True, by="ann"), db=any_db)

    append(job, status(0, "running", boot="b2"), db=any_db)

    assert (job.attempt, job.status) == (1, "training")


def test_completed_is_a_claim_that_fixes_the_outcome_only(any_db):
    job = make_job(any_db)

    append(job, status(0, "training"), status(1, "completed", final_loss=1.5), db=any_db)

    assert (job.status, job.outcome, job.finished_at) == ("uploading", "completed", None)


def test_the_first_claim_wins(any_db):
    job = make_job(any_db)
    append(job, status(0, "failed", reason="diverged", error="nan"), db=any_db)

    append(job, status(1, "completed", final_loss=1.0), status(2, "cancelled"), db=any_db)

    assert (job.outcome, job.reason, job.error) == ("failed", "diverged", "nan")


def test_aliases_of_other_trainers_are_understood(any_db):
    job = make_job(any_db)

    append(job, status(0, "provisioning"), status(1, "training"), status(2, "succeeded"), db=any_db)

    assert job.outcome == "completed"


def test_a_final_job_keeps_everything_but_its_last_step(any_db):
    job = make_job(any_db)
    append(job, status(0, "training"), report(1, step=10, loss=2.0), db=any_db)
    end_job(job, "failed", db=any_db)
    before = {name: getattr(job, name) for name in FIELDS}

    append(
        job,
        status(3, "completed", final_loss=0.1),
        report(2, step=20, loss=1.0),
        report(4, type="warning", code="x", message="late"),
        db=any_db,
    )

    changed = {name for name in FIELDS if getattr(job, name) != before[name]}
    assert changed == {"last_step", "last_loss", "fold_keys", "curve"}
    assert job.last_step == 20


def test_second_final_event_is_refused_by_the_database(any_db):
    job = end_job(make_job(any_db), db=any_db)

    with pytest.raises(IntegrityError), transaction.atomic(using=any_db):
        JobEvent.objects.using(any_db).create(
            run=job, seq=99, type="status", source="server", is_final=True
        )


def test_the_row_is_the_fold_of_its_events(any_db):
    job = make_job(any_db)
    append(
        job,
        status(0, "running"),
        report(3, step=3, loss=1.0),
        report(1, step=1, loss=3.0),
        report(2, type="warning", code="w", message="m"),
        db=any_db,
    )
    append(job, status(0, "running", boot="b2"), report(1, "b2", step=2, loss=None), db=any_db)
    append(job, server_event("status", status="running", is_stopping=True, by="ann"), db=any_db)
    append(job, status(2, "cancelled", boot="b2"), db=any_db)
    end_job(job, "cancelled", db=any_db)

    state = refolded(job, any_db)

    assert {name: getattr(state, name) for name in FIELDS} == {
        name: getattr(job, name) for name in FIELDS
    }


def test_a_loss_that_is_no_number_is_null_and_says_which(any_db):
    job = make_job(any_db)

    append(job, report(0, step=10, loss=float("nan")), db=any_db)

    assert (job.last_loss, job.last_loss_nonfinite) == (None, "nan")
    append(job, report(1, step=20, loss=1.0), db=any_db)
    assert (job.last_loss, job.last_loss_nonfinite) == (1.0, "")


def test_secrets_are_removed_before_anything_is_stored(any_db):
    job = make_job(any_db)
    token = token_of(job)

    append(
        job,
        status(
            0, "failed", error=f"403 for https://r2.example/b/a?X-Amz-Signature=deadbeef {token}"
        ),
        db=any_db,
    )

    stored = str(JobEvent.objects.using(any_db).filter(run=job).values_list("data", flat=True))
    for text in (stored, job.error):
        assert "deadbeef" not in text
        assert token not in text
        assert "r2.example/b/a" in text or text is stored


def test_nul_and_half_surrogates_can_be_stored(any_db):
    job = make_job(any_db)

    append(job, report(0, type="log", text="a\x00b \ud83d", **{"k\x00": 1}), db=any_db)

    event = JobEvent.objects.using(any_db).get(run=job, source_seq=0)
    assert event.data["text"] == "a\ufffdb \ufffd"


def test_parallel_copies_are_stored_once_and_numbered_without_gaps(any_db):
    job = make_job(any_db)
    errors = []

    def post(start):
        try:
            append_events(
                job.pk, [report(n, step=n, loss=1.0) for n in range(start, start + 20)], db=any_db
            )
        except Exception as error:
            errors.append(error)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=post, args=(start,)) for start in (0, 0, 10, 10, 20, 20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert errors == []
    seqs = (
        JobEvent.objects.using(any_db).filter(run=job).order_by("seq").values_list("seq", flat=True)
    )
    assert list(seqs) == list(range(41))
    assert TrainingJob.objects.using(any_db).get(pk=job.pk).last_step == 39
