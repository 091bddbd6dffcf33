"""The checkpoints that a job's trainers wrote, read from its events."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from training.models import JobEvent, TrainingJob
from training.series import Series, number_or_none, read_series


@dataclass(frozen=True)
class JobCheckpoint:
    """One checkpoint. `path` is its folder's name, in the job's folder for checkpoints.

    `loss` is the training loss last reported at or before its step, `eval_loss` that on the
    examples held out, None where nothing was evaluated. `is_best`: no other has a lower one.
    """

    step: int
    path: str
    size_bytes: int | None
    attempt: int
    loss: float | None
    eval_loss: float | None
    is_best: bool
    created_at: datetime


def job_checkpoints(
    job: TrainingJob, *, db: str, series: Series | None = None
) -> list[JobCheckpoint]:
    """Those of a job, most steps first. `series` are the job's, where they were read already.

    A step that was saved again after a resume is there once. A trainer keeps the newest few and
    the best on disk; this lists what was written.
    """
    events = (
        JobEvent.objects.using(db)
        .filter(run=job, type="checkpoint")
        .order_by("attempt", "position", "seq")
    )
    by_step = {event.data["step"]: event for event in events if event.data.get("step") is not None}
    if not by_step:
        return []
    series = read_series(job, db=db) if series is None else series
    rows = [_checkpoint(event, series) for _, event in sorted(by_step.items(), reverse=True)]
    return _with_best(rows)


def _checkpoint(event: JobEvent, series: Series) -> JobCheckpoint:
    data = event.data
    step, path, size = data["step"], data.get("path"), data.get("size_bytes")
    evaluated = dict(series.get("eval_loss", ()))
    return JobCheckpoint(
        step=step,
        path=path if isinstance(path, str) else "",
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) else None,
        attempt=event.attempt,
        loss=_last_at(series.get("loss", ()), step),
        eval_loss=number_or_none(data.get("eval_loss", evaluated.get(step))),
        is_best=False,
        created_at=event.created_at,
    )


def _last_at(values: Sequence[tuple[int, float | None]], step: int) -> float | None:
    """The value of the last point at or before this step."""
    index = bisect_right(values, step, key=lambda value: value[0])
    return values[index - 1][1] if index else None


def _with_best(rows: list[JobCheckpoint]) -> list[JobCheckpoint]:
    losses = [row.eval_loss for row in rows if row.eval_loss is not None]
    if not losses:
        return rows
    # Of equal ones the earliest: nothing got better after it.
    best = max(index for index, row in enumerate(rows) if row.eval_loss == min(losses))
    rows[best] = replace(rows[best], is_best=True)
    return rows
