"""Watches a job from a terminal until it ends; Ctrl-C ends the watching, never the job."""

from __future__ import annotations

import threading
from contextlib import AbstractContextManager, nullcontext
from datetime import timedelta
from typing import Any

from django.core.management import CommandError
from django.db import connections
from django.utils import timezone
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gligabao.terminal import printable
from training.event_text import event_text
from training.feed.follow import follow_events
from training.feed.messages import event_payload
from training.management.row_command import INTERRUPTED, RowCommand, db_option
from training.models import JobEvent, TrainingJob
from training.progress import percent_done
from training.services.jobs import get_job
from training.states import JobStatus

BAR_FIELDS = ("step", "loss", "nonfinite")  # what fits beside a bar
NO_WORKER_SECONDS = 5  # a worker looks at the queue every second


def watch(command: RowCommand, run_id: int, *, db: str, from_seq: int, options: Any) -> None:
    """Print the events of a job until its end.

    Raises CommandError with exit code 1 when it ended without a model, 130 on Ctrl-C.
    """
    job = get_job(run_id, db=db)
    hint = threading.Timer(NO_WORKER_SECONDS, _hint_at_missing_worker, (command, db))
    hint.daemon = True
    hint.start()
    try:
        _print_events(command, job, db=db, from_seq=from_seq)
    except KeyboardInterrupt:
        raise CommandError(
            f"Stopped watching; job {run_id} goes on. To stop it: "
            f"manage.py stop {run_id}{db_option(options)}",
            returncode=INTERRUPTED,
        ) from None
    finally:
        hint.cancel()
    _check_end(get_job(run_id, db=db))


def _print_events(command: RowCommand, job: TrainingJob, *, db: str, from_seq: int) -> None:
    events = follow_events(job.pk, db=db, from_seq=from_seq)
    if command.is_json:
        for event in events:
            command.say_json(event_payload(event, job_id=job.job_id, db=db))
        return
    has_bar = command.stdout.isatty()
    with _bar(command) if has_bar else nullcontext() as bar:
        task = bar.add_task("", total=100, text="") if bar else None
        for event in events:
            if bar and event.type == "progress":
                _move(bar, task, event, job)
            else:
                command.console.print(_line(event), soft_wrap=True)


def _bar(command: RowCommand) -> AbstractContextManager[Progress]:
    return Progress(
        BarColumn(),
        TextColumn("{task.fields[text]}", markup=False),
        TimeElapsedColumn(),
        console=command.console,
    )


def _move(bar: Progress, task: Any, event: JobEvent, job: TrainingJob) -> None:
    step = event.data.get("step") or 0
    short = {name: event.data[name] for name in BAR_FIELDS if name in event.data}
    text = printable(f"of {job.num_train_steps}: {event_text(event.type, short)}")
    bar.update(task, completed=percent_done(step, job.num_train_steps), text=text)


def _line(event: JobEvent) -> str:
    text = event_text(event.type, event.data, attempt=event.attempt)
    return printable(f"{event.seq:>5} {event.type:<10} {text}")


def _hint_at_missing_worker(command: RowCommand, db: str) -> None:
    """Runs in a timer's thread: say so when nobody takes jobs from the queue."""
    try:
        now = timezone.now()
        waiting = TrainingJob.objects.using(db).to_submit(now)
        overdue = now - timedelta(seconds=NO_WORKER_SECONDS - 1)
        if waiting.filter(next_poll_at__lt=overdue, status=JobStatus.QUEUED).exists():
            command.note(
                "The job is still queued and no worker seems to be running. "
                "Start one, in another terminal: manage.py up"
            )
    finally:
        connections[db].close()


def _check_end(job: TrainingJob) -> None:
    if job.status == JobStatus.COMPLETED:
        return
    said = f" ({printable(job.error)})" if job.error else ""
    raise CommandError(f"Job {job.pk} {job.status}: {job.reason_sentence}{said}")
