"""Moves a followed job towards its one end.

A trainer's `completed` is a claim. The row becomes final when three things hold: the outcome is
fixed, the stored bytes of a claimed model are verified, and the provider confirms that the run
is over. Then the server writes the one final event, in one transaction with the row.
"""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from gligabao.databases import write_transaction
from gligabao.errors import GligabaoError, ProviderUnreachable
from training.contract import server_event
from training.events import append_events, append_server_event
from training.models import JobAttempt, JobEvent, TrainedModel, TrainingJob
from training.projections import SILENCE
from training.providers.base import Phase, Provider, RunStatus
from training.runner import verify
from training.states import JobStatus, Outcome, Reason

logger = logging.getLogger(__name__)

FORCE_STOP_AFTER = timedelta(seconds=30)
END_BY_FORCE_AFTER = timedelta(seconds=60)  # after its final report
UPLOAD_RESERVE = timedelta(seconds=600)
PROVISION_TIMEOUT = timedelta(seconds=3600)
NO_LOG_WAIT = timedelta(seconds=30)
UNREACHABLE_WITH_OUTCOME = timedelta(minutes=10)
UNREACHABLE_WITHOUT = timedelta(hours=24)
VERIFY_PATIENCE = timedelta(hours=24)
NUM_LAST_LINES = 20


def advance(db: str, run_id: int, provider: Provider, status: RunStatus | None) -> None:
    """Do what is due for a job after a look. `status` is None if the provider did not answer."""
    job = TrainingJob.objects.using(db).get(pk=run_id)
    if job.is_final:
        return
    if status is not None and status.phase in (Phase.ENDED, Phase.UNKNOWN):
        if job.outcome:
            _finish(job, status, provider, db)
        else:
            _end_without_report(job, status, provider, db)
        return
    _decide_deadlines(job, db)
    _warn_of_silence(job, db)
    job.refresh_from_db(using=db)
    _stop_if_wanted(job, provider)
    if status is None and _waited_long_enough(job):
        if job.outcome:
            _finish(job, None, provider, db)
        else:
            error = "The provider has not answered for 24 hours."
            at = _ended_at(job, None)
            _write_end(job, JobStatus.FAILED, Reason.CONTAINER_LOST, error, at, db)


def _decide_deadlines(job: TrainingJob, db: str) -> None:
    """Fix the outcome of a job that overran a deadline; its container is then ended."""
    if job.outcome:
        return
    now = timezone.now()
    started = [
        (row.started_at, row.ended_at)
        for row in JobAttempt.objects.using(db).filter(run=job)
        if row.started_at is not None
    ]
    up = sum(((end or now) - start for start, end in started), timedelta())
    if up > timedelta(seconds=job.max_seconds) + UPLOAD_RESERVE:
        _decide(
            job, Reason.RUN_TIMEOUT, f"It ran longer than max_seconds, {job.max_seconds} s.", db
        )
    elif not started and job.submitted_at and now - job.submitted_at > PROVISION_TIMEOUT:
        _decide(job, Reason.PROVISION_TIMEOUT, "No container came up within an hour.", db)


def _decide(job: TrainingJob, reason: Reason, error: str, db: str) -> None:
    event = server_event(
        "status",
        status=job.status,
        is_stopping=True,
        by="gligabao",
        outcome=Outcome.FAILED.value,
        reason=reason.value,
        error=error,
    )
    append_events(job.pk, [event], db=db)


def _stop_if_wanted(job: TrainingJob, provider: Provider) -> None:
    """Ask a run that should end to end, and by force when it had its time; again at each look."""
    now = timezone.now()
    asked = job.stop_requested_at is not None
    # Also when it was asked in the future: then the clock was put back meanwhile.
    force = (asked and abs(now - job.stop_requested_at) > FORCE_STOP_AFTER) or (
        job.outcome_at is not None and abs(now - job.outcome_at) > END_BY_FORCE_AFTER
    )
    if not asked and not force:
        return
    try:
        provider.stop(job.provider_job_id, force=force)
    except ProviderUnreachable as error:
        logger.warning("Job %s was not stopped yet: %s", job.job_id, error.message)


def _end_without_report(job: TrainingJob, status: RunStatus, provider: Provider, db: str) -> None:
    """The run is over, its log is read, and no report said how it ended."""
    if status.phase is Phase.UNKNOWN and _is_fresh(job):
        return
    if job.stop_requested_at is not None:
        outcome, reason = JobStatus.CANCELLED, Reason.USER_STOP
        error = f"Stopped by {job.stop_requested_by}."
    else:
        outcome = JobStatus.FAILED
        reason, error = _reason_of(job, status)
        error = _with_last_lines(error, job, provider)
    _write_end(job, outcome, reason, error, _ended_at(job, status), db)


def _reason_of(job: TrainingJob, status: RunStatus) -> tuple[Reason, str]:
    code = status.exit_code
    where = f"after step {job.last_step}" if job.last_step else "before the first step"
    if status.was_out_of_memory:
        return (
            Reason.OUT_OF_MEMORY,
            f"The system killed the trainer for memory (exit code {code}) {where}.",
        )
    if status.phase is Phase.UNKNOWN:
        return Reason.CONTAINER_LOST, f"The provider does not know this run any more, {where}."
    if code is None:
        return Reason.CONTAINER_LOST, f"The trainer is gone without an exit code, {where}."
    if code == 137:
        return (
            Reason.CONTAINER_LOST,
            f"The trainer was killed (exit code 137, often out of memory) {where}.",
        )
    if code > 128:
        return (
            Reason.CONTAINER_LOST,
            f"The trainer was ended by signal {code - 128} (exit code {code}) {where}.",
        )
    return (
        Reason.TRAINER_ERROR,
        f"The trainer ended with exit code {code} {where} and reported no end.",
    )


def _with_last_lines(error: str, job: TrainingJob, provider: Provider) -> str:
    try:
        lines = provider.logs(job.provider_job_id, limit=NUM_LAST_LINES)
    except GligabaoError as unread:
        logger.warning("Job %s: its log could not be read: %s", job.job_id, unread.message)
        return error
    if not lines:
        return error
    return error + "\nIts last lines:\n" + "\n".join(line.text for line in lines)


def _is_fresh(job: TrainingJob) -> bool:
    """Submitted so lately that the provider may not have its run in view yet."""
    return job.submitted_at is not None and abs(timezone.now() - job.submitted_at) < NO_LOG_WAIT


def _waited_long_enough(job: TrainingJob) -> bool:
    """Whether a provider that does not answer may no longer hold up the end."""
    if job.unreachable_since is None:
        return False
    limit = UNREACHABLE_WITH_OUTCOME if job.outcome else UNREACHABLE_WITHOUT
    return timezone.now() - job.unreachable_since > limit


def _finish_claim(job: TrainingJob, status: RunStatus | None, provider: Provider, db: str) -> None:
    """Verify what a trainer says it stored, and make the model of it."""
    claim = claim_of(job, db)
    try:
        verified = verify.verify_claim(job, claim, provider)
    except verify.ArtifactsInvalid as error:
        reason = Reason.ARTIFACT_INVALID
        _write_end(job, JobStatus.FAILED, reason, str(error), _ended_at(job, status), db)
    except (GligabaoError, OSError) as error:
        _verify_later(job, error, status, db)
    else:
        _complete(job, claim, verified, _ended_at(job, status), db)


def _verify_later(job: TrainingJob, error: Exception, status: RunStatus | None, db: str) -> None:
    """Storage fails us (a full disk): that costs no trained model, the next look tries again."""
    message = f"The weights are not verified yet: {error}"
    if timezone.now() - job.outcome_at > VERIFY_PATIENCE:
        at = _ended_at(job, status)
        _write_end(job, JobStatus.FAILED, Reason.ARTIFACT_INVALID, message, at, db)
        return
    logger.warning("Job %s: %s", job.job_id, message)
    if "storage_failed" not in {warning["code"] for warning in job.warnings}:
        append_server_event(job.pk, "warning", db=db, code="storage_failed", message=message)


def claim_of(job: TrainingJob, db: str) -> dict[str, Any]:
    """The report that claimed completion: the first one of its attempt."""
    events = JobEvent.objects.using(db).filter(run=job, type="status", source="trainer")
    for event in events.filter(attempt=job.attempt).order_by("seq"):
        if event.data.get("reported") in ("completed", "succeeded"):
            return event.data
    raise LookupError(f"Job {job.pk} has the outcome completed without a report that says so.")


def _complete(
    job: TrainingJob,
    claim: dict[str, Any],
    verified: verify.Verified,
    ended_at: datetime,
    db: str,
) -> None:
    """Record the model and the end together: one is never there without the other."""
    with write_transaction(db):
        locked = TrainingJob.objects.using(db).select_for_update().get(pk=job.pk)
        if locked.is_final:
            return
        model = TrainedModel.objects.using(db).create(
            **verify.model_fields(locked, claim, verified)
        )
        _append_end(
            locked,
            JobStatus.COMPLETED,
            "",
            "",
            ended_at,
            db,
            final_loss=claim.get("final_loss"),
            model_id=model.pk,
        )


def _finish(job: TrainingJob, status: RunStatus | None, provider: Provider, db: str) -> None:
    """The outcome was fixed by a report or a decision, and the run is over now."""
    if job.outcome == Outcome.COMPLETED:
        _finish_claim(job, status, provider, db)
    else:
        at = _ended_at(job, status)
        _write_end(job, JobStatus(job.outcome), job.reason, job.error, at, db)


def _warn_of_silence(job: TrainingJob, db: str) -> None:
    """Say once per silence that news stopped; the job is not failed for it."""
    if not job.is_stale:
        return
    said = (
        JobEvent.objects.using(db)
        .filter(run=job, source="server", type="warning", created_at__gt=job.last_seen_at)
        .filter(data__code=SILENCE)
    )
    if not said.exists():
        since = job.last_seen_at.strftime("%Y-%m-%dT%H:%M:%SZ")
        append_server_event(
            job.pk, "warning", db=db, code=SILENCE, message=f"No news since {since}."
        )


def _write_end(
    job: TrainingJob, status: JobStatus, reason: str, error: str, ended_at: datetime, db: str
) -> None:
    """Write the end as it was decided on `job`, unless a report has fixed another meanwhile."""
    with write_transaction(db):
        locked = TrainingJob.objects.using(db).select_for_update().get(pk=job.pk)
        if not locked.is_final and locked.outcome == job.outcome:
            _append_end(locked, status, reason, error, ended_at, db)


def _append_end(
    job: TrainingJob,
    status: JobStatus,
    reason: str,
    error: str,
    ended_at: datetime,
    db: str,
    *,
    final_loss: float | None = None,
    model_id: int | None = None,
) -> None:
    event = server_event(
        "status",
        status=status.value,
        reason=str(reason),
        error=error,
        final_loss=final_loss,
        model_id=model_id,
        finished_at=ended_at.isoformat(),
    )
    append_events(job.pk, [event], db=db)
    JobAttempt.objects.using(db).filter(run=job, ended_at=None).update(
        ended_at=ended_at, reason=str(reason)
    )


def _ended_at(job: TrainingJob, status: RunStatus | None) -> datetime:
    """The best evidence of the end: the provider's word, else the last sign of life."""
    now = timezone.now()
    ended_at = (status.ended_at if status else None) or (now if status else job.last_seen_at) or now
    return min(max(ended_at, job.created_at), now)
