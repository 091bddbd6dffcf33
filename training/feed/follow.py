"""The events of one job for a command: those stored, then those that arrive."""

from __future__ import annotations

from collections.abc import Iterator

from gligabao.errors import NotFound
from training.feed.doorbell import open_bell
from training.feed.messages import events_from
from training.feed.tailer import SWEEP_SECONDS
from training.models import JobEvent, TrainingJob


def follow_events(
    run_id: int, *, db: str, from_seq: int = 0, until_final: bool = True
) -> Iterator[JobEvent]:
    """Yield the events of a job from `from_seq` on, each once and in order.

    Waits for more. With `until_final` it ends with the job, after the last event that was
    stored by then. Raises NotFound, also when the job is deleted meanwhile.
    """
    with open_bell(db) as bell:
        while True:
            is_final = _job(run_id, db).is_final  # before the events: all are stored by then
            while page := events_from(run_id, from_seq, db=db):
                yield from page
                from_seq = page[-1].seq + 1
            if is_final and until_final:
                return
            bell.wait(SWEEP_SECONDS)


def _job(run_id: int, db: str) -> TrainingJob:
    job = TrainingJob.objects.using(db).filter(pk=run_id).first()
    if job is None:
        raise NotFound(f"No training job {run_id}.", code="unknown_job")
    return job
