"""The one door through which a job changes: append_events().

It numbers what it stores, drops repeats, folds the events into the row and rings the doorbell,
all in one transaction. Nothing else writes a job's status, `last_*`, outcome or end.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from gligabao.databases import write_transaction
from gligabao.secrets_filter import remove_secrets_deep
from training import projections
from training.contract import Report, server_event
from training.feed import doorbell
from training.models import JobAttempt, JobEvent, TrainingJob
from training.projections import Fact, JobState
from training.states import JobStatus
from training.tokens import make_job_token


@dataclass(frozen=True)
class Appended:
    """What became of a batch: stored, or seen before."""

    accepted: int
    duplicates: int


def append_events(
    run_id: int, reports: Sequence[Report], *, db: str, cursor: str | None = None
) -> Appended:
    """Store reports of one job in order and fold them into its row.

    Safe to repeat, to receive late and out of order: (run, boot, source_seq) is unique, so a
    repeat is counted and dropped. The server numbers what it stores (`seq`, from 0, no gaps).
    A final job keeps its status. `cursor`, where a log was read to, is saved with the events.
    Streams hear of it after the commit.

    Raises TrainingJob.DoesNotExist.
    """
    with write_transaction(db):
        job = TrainingJob.objects.using(db).select_for_update().get(pk=run_id)
        new = _unseen(job, reports, db)
        events = _Batch(job, db).events_of(new)
        JobEvent.objects.using(db).bulk_create(events)
        _save(job, cursor, db, touched=bool(events))
        if events:
            doorbell.ring_on_commit(run_id, db)
    return Appended(accepted=len(new), duplicates=len(reports) - len(new))


def append_server_event(run_id: int, type: str, *, db: str, **data: Any) -> Appended:
    """Store one event of the server's own."""
    return append_events(run_id, [server_event(type, **data)], db=db)


def _unseen(job: TrainingJob, reports: Sequence[Report], db: str) -> list[Report]:
    """The reports that are neither stored nor twice in this batch, in their order."""
    boots = {report.boot for report in reports}
    stored = JobEvent.objects.using(db).filter(run=job, boot__in=boots)
    numbers = [report.source_seq for report in reports if report.source_seq is not None]
    digests = [report.digest for report in reports if report.digest and report.type != "log"]
    seen: set[tuple[str, int | str]] = set()
    if numbers:
        seen |= set(stored.filter(source_seq__in=numbers).values_list("boot", "source_seq"))
    if digests:
        seen |= set(stored.filter(digest__in=digests).values_list("boot", "digest"))
    new = []
    for report in reports:
        key = _identity(report)
        if key is not None:
            if key in seen:
                continue
            seen.add(key)
        new.append(report)
    return new


def _identity(report: Report) -> tuple[str, int | str] | None:
    """What makes a report the same as another; None for one that is always new."""
    if report.source_seq is not None:
        return report.boot, report.source_seq
    if report.source == "server" or report.type == "log":
        return None
    return report.boot, report.digest


class _Batch:
    """Turns the new reports of one job into events, folding as it goes."""

    def __init__(self, job: TrainingJob, db: str) -> None:
        self.job = job
        self.db = db
        self.state = JobState.of(job)
        self.now = timezone.now()
        self.events: list[JobEvent] = []
        self.attempts: dict[str, int] | None = None
        self.positions: dict[str, int] = {}
        self.token = make_job_token(job.job_id, job.nonce, key=settings.SECRET_KEY)

    def events_of(self, reports: Sequence[Report]) -> list[JobEvent]:
        for report in reports:
            if report.source == "trainer":
                self._add(report, self._attempt_of(report.boot), self._position_of(report))
            else:
                self._add(report, self.state.attempt, 0)
        for name in projections.FIELDS:
            setattr(self.job, name, getattr(self.state, name))
        return self.events

    def _add(self, report: Report, attempt: int, position: int) -> None:
        data = remove_secrets_deep(report.data, known=(self.token,))
        fact = Fact(report.type, report.source, attempt, position, data, self.now)
        self.state = projections.fold(self.state, fact)
        if report.type == "status":
            data = _with_row_status(data, self.state.status)
        self.events.append(
            JobEvent(
                run=self.job,
                seq=self.job.next_seq,
                type=report.type,
                source=report.source,
                boot=report.boot,
                source_seq=report.source_seq,
                attempt=attempt,
                position=position,
                digest="" if report.type == "log" else report.digest,
                is_final=report.source == "server" and _is_final(report),
                data=data,
                created_at=self.now,
            )
        )
        self.job.next_seq += 1

    def _attempt_of(self, boot: str) -> int:
        """The attempt that a boot belongs to; a boot not seen before opens the next one.

        An attempt that nobody was heard of in yet (the first, or one whose start the provider
        told us) takes the boot. After a stop, a decision or the end no new attempt counts: the
        boot gets a number of its own, and the row does not follow it.
        """
        if self.attempts is None:
            self.attempts = {
                row.boot: row.attempt
                for row in JobAttempt.objects.using(self.db).filter(run=self.job)
                if row.boot is not None
            }
        if boot not in self.attempts:
            self.attempts[boot] = self._open_attempt(boot)
        return self.attempts[boot]

    def _open_attempt(self, boot: str) -> int:
        rows = JobAttempt.objects.using(self.db).filter(run=self.job)
        silent = rows.filter(boot=None).order_by("attempt").first()
        if silent is not None:
            silent.boot = boot
            silent.started_at = silent.started_at or self.now
            silent.save(using=self.db, update_fields=["boot", "started_at"])
            return silent.attempt
        attempt = (rows.aggregate(last=Max("attempt"))["last"] or 0) + 1
        JobAttempt.objects.using(self.db).create(
            run=self.job,
            attempt=attempt,
            boot=boot,
            provider_job_id=self.job.provider_job_id,
            started_at=self.now,
        )
        counts = not (self.state.outcome or self.state.stop_requested_at or self.state.is_final)
        if attempt > self.state.attempt and counts:
            self._add(
                server_event("status", status=JobStatus.RUNNING.value, attempt=attempt), attempt, 0
            )
        return attempt

    def _position_of(self, report: Report) -> int:
        """Where a report folds within its boot; one without a number follows the last stored."""
        if report.source_seq is not None:
            last = self.positions.get(report.boot, -1)
            self.positions[report.boot] = max(last, report.source_seq)
            return report.source_seq
        if report.boot not in self.positions:
            stored = JobEvent.objects.using(self.db).filter(
                run=self.job, boot=report.boot, source="trainer"
            )
            last = stored.aggregate(last=Max("position"))["last"]
            self.positions[report.boot] = 0 if last is None else last
        return self.positions[report.boot]


def _with_row_status(data: dict[str, Any], status: str) -> dict[str, Any]:
    """`status` is the row's after the event; what was said, if different, is `reported`."""
    said = data["status"]
    if said == status:
        return data
    return {**data, "status": str(status), "reported": said}


def _is_final(report: Report) -> bool:
    return report.type == "status" and JobStatus(report.data["status"]).is_final


def _save(job: TrainingJob, cursor: str | None, db: str, *, touched: bool) -> None:
    fields: list[str] = []
    if touched:
        job.touched_at = timezone.now()
        fields += [*projections.FIELDS, "next_seq", "touched_at"]
    if cursor is not None:
        job.provider_cursor = cursor
        fields.append("provider_cursor")
    if fields:
        job.save(using=db, update_fields=fields)
