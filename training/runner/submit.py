"""From a queued job to a provider run, once per job however often it is tried.

A claim, committed before the provider is called, keeps two workers from submitting one job. It
lapses after 60 s: if its worker died in between, the job is submitted again, with the same spec
and nonce, and the runs settle among themselves which one goes on.
"""

from __future__ import annotations

import logging
from datetime import timedelta
from pathlib import Path

from django.conf import settings
from django.db import DatabaseError
from django.db.models import F
from django.utils import timezone

from datasets.services import open_version
from gligabao.databases import name_of, write_transaction
from gligabao.errors import DatasetDamaged, GligabaoError, NotConfigured, ProviderUnreachable
from training.catalog import base_model
from training.contract import JobSpec, server_event
from training.events import append_events
from training.models import JobAttempt, TrainingJob
from training.models.job import is_claim_over
from training.providers import get_provider
from training.providers.base import ProviderBusy
from training.states import JobStatus, Outcome, Reason
from training.tokens import make_job_token

logger = logging.getLogger(__name__)

BUSY_WAIT = timedelta(seconds=1)
MAX_BACKOFF_SECONDS = 30
GIVE_UP_AFTER = timedelta(hours=24)
SPEC_LIFETIME = timedelta(days=2)


def submit_due(db: str) -> None:
    """Submit the queued jobs that are due, oldest first; stop at a provider without a free slot."""
    busy: set[str] = set()
    for job in TrainingJob.objects.using(db).to_submit(timezone.now())[:50]:
        if job.provider in busy:
            continue
        try:
            if not submit_job(db, job.pk):
                busy.add(job.provider)
        except DatabaseError:
            raise
        except Exception:
            # It is tried again when its claim has lapsed; the jobs behind it do not wait for that.
            logger.exception("Job %s could not be submitted.", job.job_id)


def submit_job(db: str, run_id: int) -> bool:
    """Submit one job if nobody else is doing it. False: its provider has no slot free."""
    job = _claim(db, run_id)
    if job is None:
        return True
    try:
        provider = get_provider(job.provider)
        if _may_start(job):
            provider_job_id = provider.submit(build_spec(job, db))
        else:
            provider_job_id = provider.find(job.job_id)
    except ProviderBusy:
        _release(job, db)
        return False
    except (ProviderUnreachable, NotConfigured) as error:
        _try_later(job, error, db)
        return True
    except DatasetDamaged as error:
        _end(job, JobStatus.FAILED, Reason.DATASET_INVALID, error.message, db)
        return True
    except GligabaoError as error:
        _end(job, JobStatus.FAILED, Reason.PROVIDER_REJECTED, error.message, db)
        return True
    if provider_job_id is None:
        _end_unstarted(job, db)
    else:
        _accepted(job, provider_job_id, db)
    return True


def _may_start(job: TrainingJob) -> bool:
    """Whether a run may be started. After a stop, or once a trainer was heard of, only the run
    that a dead worker left behind may be taken up."""
    return job.status == JobStatus.QUEUED and not job.outcome and job.stop_requested_at is None


def _end_unstarted(job: TrainingJob, db: str) -> None:
    """No run of this job exists, and none may be started any more."""
    if job.stop_requested_at is not None:
        _cancel(job, db)
    else:
        error = "The provider does not know a run of this job."
        _end(job, JobStatus.FAILED, Reason.CONTAINER_LOST, error, db)


def build_spec(job: TrainingJob, db: str) -> JobSpec:
    """The job's spec; the same text however often it is built. Raises DatasetDamaged."""
    entry = base_model(job.base_model)
    version = open_version(job.dataset_sha256, db=db)
    run_address = f"{settings.PUBLIC_URL or settings.LOCAL_URL}/v1/gb/training/jobs/{job.pk}"
    hyperparams = dict(job.hyperparams)
    return JobSpec(
        job_id=job.job_id,
        nonce=job.nonce,
        installation_id=settings.INSTALLATION_ID,
        model=entry.repository,
        revision=entry.revision,
        model_id=entry.id,
        model_source=job.model_source,
        method=job.method,
        lora_target_pattern=entry.lora_target_pattern,
        dataset_path=str(version.path),
        dataset_sha256=job.dataset_sha256,
        dataset_format=version.format,
        seed=hyperparams.pop("seed"),
        hyperparams=hyperparams,
        num_train_steps=job.num_train_steps,
        max_seconds=job.max_seconds,
        job_token=make_job_token(job.job_id, job.nonce, key=settings.SECRET_KEY),
        checkpoint_dir=str(checkpoint_dir(job)),
        resume_from=_resume_from(job),
        callback_url=f"{run_address}/events?db={name_of(db)}",
        uploads=f"{run_address}/uploads?db={name_of(db)}",
        expires_at=(job.created_at + SPEC_LIFETIME).strftime("%Y-%m-%dT%H:%M:%SZ"),
    )


def checkpoint_dir(job: TrainingJob) -> Path:
    return settings.JOBS_DIR / job.job_id / "checkpoints"


def _resume_from(job: TrainingJob) -> str | None:
    """Where the job that this one continues left checkpoints; if it ended before it made one of
    its own, where it had begun from."""
    earlier = job.retry_of if job.resume else None
    while earlier and earlier.resume and earlier.retry_of and not _has_checkpoint(earlier):
        earlier = earlier.retry_of
    return str(checkpoint_dir(earlier)) if earlier else None


def _has_checkpoint(job: TrainingJob) -> bool:
    # A trainer's marker, in a folder that has its own name: one that was cut off lacks either.
    return any(checkpoint_dir(job).glob("checkpoint-*[0-9]/complete.json"))


def _claim(db: str, run_id: int) -> TrainingJob | None:
    """Take the job for submission; None if another has it or the provider has it already."""
    now = timezone.now()
    with write_transaction(db):
        rows = TrainingJob.objects.using(db).unfinished()
        if not rows.filter(is_claim_over(now), pk=run_id, provider_job_id="").update(
            claimed_at=now
        ):
            return None
    return TrainingJob.objects.using(db).select_related("retry_of").get(pk=run_id)


def _accepted(job: TrainingJob, provider_job_id: str, db: str) -> None:
    with write_transaction(db):
        row = TrainingJob.objects.using(db).select_for_update().get(pk=job.pk)
        _adopt(job, provider_job_id, db)
        if row.is_final:  # ended by another, while the provider took its time
            return
        append_events(
            job.pk,
            [
                server_event(
                    "status", status=JobStatus.STARTED.value, provider_job_id=provider_job_id
                )
            ],
            db=db,
        )


def _adopt(job: TrainingJob, provider_job_id: str, db: str) -> None:
    TrainingJob.objects.using(db).filter(pk=job.pk).update(
        provider_job_id=provider_job_id, next_poll_at=timezone.now(), num_submit_failures=0
    )
    # Not there yet, or made by a report that was here before the answer.
    JobAttempt.objects.using(db).update_or_create(
        run_id=job.pk, attempt=1, defaults={"provider_job_id": provider_job_id}
    )


def _release(job: TrainingJob, db: str) -> None:
    """Give the claim back: nothing was started. A stop that came meanwhile ends the job."""
    with write_transaction(db):
        mine = TrainingJob.objects.using(db).filter(pk=job.pk, claimed_at=job.claimed_at)
        if not mine.update(claimed_at=None, next_poll_at=timezone.now() + BUSY_WAIT):
            return
        row = mine.model.objects.using(db).get(pk=job.pk)
        if row.stop_requested_at is not None:
            _cancel(row, db)


def _try_later(job: TrainingJob, error: GligabaoError, db: str) -> None:
    """Back off after a provider that did not answer; the queue deadline ends it."""
    now = timezone.now()
    first = job.first_tried_at or now
    if now - first >= timedelta(seconds=settings.QUEUE_TIMEOUT) and _give_up(job, error, db):
        return
    wait = min(2**job.num_submit_failures, MAX_BACKOFF_SECONDS)
    with write_transaction(db):
        TrainingJob.objects.using(db).filter(pk=job.pk, claimed_at=job.claimed_at).update(
            claimed_at=None,
            first_tried_at=first,
            num_submit_failures=F("num_submit_failures") + 1,
            next_poll_at=now + timedelta(seconds=wait),
        )
        row = TrainingJob.objects.using(db).get(pk=job.pk)
        if row.stop_requested_at is not None and not row.is_final:
            _cancel(row, db)
    logger.warning("Job %s was not submitted: %s Trying again.", job.job_id, error.message)


def _give_up(job: TrainingJob, error: GligabaoError, db: str) -> bool:
    """End a job at its queue deadline, unless one of the failed tries did start a run.

    False while the provider cannot even tell that; after 24 h it is no longer asked.
    """
    try:
        provider_job_id = get_provider(job.provider).find(job.job_id)
    except ProviderUnreachable:
        if timezone.now() - job.first_tried_at < GIVE_UP_AFTER:
            return False
        provider_job_id = None
    if provider_job_id is None:
        _end(job, JobStatus.FAILED, Reason.PROVIDER_UNREACHABLE, error.message, db)
    else:
        _accepted(job, provider_job_id, db)
    return True


def _cancel(job: TrainingJob, db: str) -> None:
    by = job.stop_requested_by
    _end(job, JobStatus.CANCELLED, Reason.USER_STOP, f"Stopped by {by}.", db)


def _end(job: TrainingJob, status: JobStatus, reason: Reason, error: str, db: str) -> None:
    """End a job that no provider has; an outcome that its trainer has fixed before stays."""
    with write_transaction(db):
        row = TrainingJob.objects.using(db).select_for_update().get(pk=job.pk)
        if row.is_final:
            return
        if row.outcome in (Outcome.FAILED, Outcome.CANCELLED):
            status, reason, error = JobStatus(row.outcome), Reason(row.reason), row.error
        event = server_event(
            "status",
            status=status.value,
            reason=reason.value,
            error=error,
            final_loss=None,
            model_id=None,
        )
        append_events(job.pk, [event], db=db)
