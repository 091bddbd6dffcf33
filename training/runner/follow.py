"""Follows a job that a provider has: its log, the provider's own answer, and what to do next.

Stateless between two looks: the cursor is saved with the events, everything else is in the row.
A worker that dies in between is replaced when its lease has run out.
"""

from __future__ import annotations

import logging
import secrets
from datetime import timedelta

from django.db import connections
from django.utils import timezone

from gligabao.databases import write_transaction
from gligabao.errors import InvalidRequest, ProviderUnreachable
from training.contract import Report, parse_report
from training.events import append_events, append_server_event
from training.models import JobAttempt, TrainingJob
from training.models.job import LEASE_LIFETIME
from training.providers import get_provider
from training.providers.base import Phase, Provider, RunStatus
from training.runner import lease
from training.runner.finish import advance
from training.series import keep_series
from training.states import JobStatus

logger = logging.getLogger(__name__)

MAX_CLAIMS = 50
POLL_WAIT = timedelta(seconds=2)
# A trainer's first report commonly comes within a second; sooner the provider need not tell.
LATE_START = timedelta(seconds=5)
# A local run is not expected to be unreachable; a cloud's longest wait between two tries.
UNREACHABLE_WAIT = timedelta(seconds=30)


def claim_due(db: str) -> list[tuple[int, str]]:
    """Take a lease on the jobs that are due for a look; returns run ids with the lease's owner."""
    now = timezone.now()
    if not TrainingJob.objects.using(db).to_follow(now).exists():
        return []
    owner = secrets.token_hex(8)
    with write_transaction(db):
        due = TrainingJob.objects.using(db).to_follow(now)
        ids = list(
            due.select_for_update(skip_locked=True).values_list("pk", flat=True)[:MAX_CLAIMS]
            if _can_skip_locked(db)
            else due.values_list("pk", flat=True)[:MAX_CLAIMS]
        )
        # The condition again: it alone decides where rows are not locked.
        due.filter(pk__in=ids).order_by().update(
            lease_owner=owner, lease_until=now + LEASE_LIFETIME
        )
        mine = TrainingJob.objects.using(db).filter(pk__in=ids, lease_owner=owner)
        return [(run_id, owner) for run_id in mine.values_list("pk", flat=True)]


def follow_run(db: str, run_id: int, owner: str) -> None:
    """Look at one job under a lease: read its log, ask the provider, move it on."""
    if not lease.renew(db, run_id, owner):
        return
    with lease.held(db, run_id, owner):
        wait = _look(db, run_id)
    with write_transaction(db):
        TrainingJob.objects.using(db).filter(pk=run_id, lease_owner=owner).update(
            lease_owner="", lease_until=None, next_poll_at=timezone.now() + wait
        )


def _look(db: str, run_id: int) -> timedelta:
    """One look; returns how long to wait for the next one."""
    job = TrainingJob.objects.using(db).filter(pk=run_id).first()
    if job is None or job.is_final:
        return POLL_WAIT
    provider = get_provider(job.provider)
    try:
        # Asked before the log is read: a run that was over by then has written its last line.
        status = provider.poll(job.provider_job_id)
        job = _note_status(job, status, db)
        read_log(job, provider, db=db)
        _note_reachable(job, db)
    except ProviderUnreachable as error:
        logger.warning("Job %s: %s", job.job_id, error.message)
        _note_unreachable(job, db)
        advance(db, run_id, provider, None)
        return UNREACHABLE_WAIT
    advance(db, run_id, provider, status)
    keep_series(TrainingJob.objects.using(db).get(pk=run_id), db=db)
    return POLL_WAIT


def read_log(job: TrainingJob, provider: Provider, *, db: str) -> None:
    """Store what the provider's log holds after the job's cursor, page by page."""
    cursor = job.provider_cursor
    while True:
        page = provider.read_events(job.provider_job_id, cursor)
        if page.cursor == cursor:
            return
        append_events(job.pk, _reports(job, page.reports), db=db, cursor=page.cursor)
        if page.malformed:
            logger.warning("Job %s: %d lines of its log are no JSON.", job.job_id, page.malformed)
        cursor = page.cursor


def _reports(job: TrainingJob, raw: object) -> list[Report]:
    """The readable reports of a page; the others are named in the log and left out."""
    reports = []
    for item in raw:
        try:
            reports.append(parse_report(item))
        except InvalidRequest as error:
            logger.warning("Job %s: a report was left out: %s", job.job_id, error.message)
    return reports


def _note_status(job: TrainingJob, status: RunStatus, db: str) -> TrainingJob:
    """Keep what the provider said: which run it is, and when its container was up."""
    changes = {}
    if status.provider_job_id != job.provider_job_id and status.phase is not Phase.UNKNOWN:
        changes["provider_job_id"] = status.provider_job_id
    with write_transaction(db):
        if changes:
            TrainingJob.objects.using(db).filter(pk=job.pk).update(**changes)
        if status.started_at is not None:
            _note_start(job, status, db)
            JobAttempt.objects.using(db).filter(
                run=job, attempt=job.attempt, started_at=None
            ).update(started_at=status.started_at, provider_job_id=status.provider_job_id)
    job.refresh_from_db(using=db)
    return job


def _note_start(job: TrainingJob, status: RunStatus, db: str) -> None:
    """The provider saw the container come up; its reports may reach us much later."""
    if job.started_at is None or job.started_at - status.started_at > LATE_START:
        is_up = status.phase is Phase.RUNNING
        append_server_event(
            job.pk,
            "status",
            db=db,
            status=JobStatus.RUNNING.value if is_up else job.status,
            started_at=status.started_at.isoformat(),
        )


def _note_reachable(job: TrainingJob, db: str) -> None:
    """It answered, and its log could be read: one without the other would go on for ever."""
    if job.unreachable_since is not None:
        with write_transaction(db):
            TrainingJob.objects.using(db).filter(pk=job.pk).update(unreachable_since=None)


def _note_unreachable(job: TrainingJob, db: str) -> None:
    with write_transaction(db):
        TrainingJob.objects.using(db).filter(pk=job.pk, unreachable_since=None).update(
            unreachable_since=timezone.now()
        )


def _can_skip_locked(db: str) -> bool:
    return connections[db].features.has_select_for_update_skip_locked
