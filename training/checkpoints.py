"""The checkpoints that a job's trainers wrote, read from its events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from django.db.models import OuterRef, Subquery
from django.db.models.fields.json import KeyTextTransform

from training.models import JobEvent, TrainingJob
from training.series_fold import number_or_none


@dataclass(frozen=True)
class JobCheckpoint:
    """One checkpoint. `path` is its folder's name, in the job's folder for checkpoints.

    `loss` is the training loss last reported before it, `eval_loss` that on the examples held
    out, None where nothing was evaluated. `is_best`: no other has a lower one.
    """

    step: int
    path: str
    size_bytes: int | None
    attempt: int
    loss: float | None
    eval_loss: float | None
    is_best: bool
    created_at: datetime


def job_checkpoints(job: TrainingJob, *, db: str) -> list[JobCheckpoint]:
    """Those of a job, most steps first.

    A step that was saved again after a resume is there once. A trainer keeps the newest few and
    the best on disk; this lists what was written.
    """
    events = JobEvent.objects.using(db).filter(run=job)
    loss_before = events.filter(
        type="progress",
        attempt=OuterRef("attempt"),
        seq__lt=OuterRef("seq"),
        data__has_key="loss",
    )
    written = (
        events.filter(type="checkpoint")
        .order_by("attempt", "position", "seq")
        .annotate(
            loss=Subquery(
                loss_before.order_by("-seq").values(text=KeyTextTransform("loss", "data"))[:1]
            )
        )
    )
    by_step = {event.data["step"]: event for event in written if event.data.get("step") is not None}
    if not by_step:
        return []
    reports = events.filter(type="eval").order_by("attempt", "position", "seq")
    evaluated = {
        data["step"]: number_or_none(data.get("eval_loss"))
        for data in reports.values_list("data", flat=True)
        if data.get("step") is not None
    }
    rows = [_checkpoint(event, evaluated) for _, event in sorted(by_step.items(), reverse=True)]
    return _with_best(rows)


def _checkpoint(event: Any, evaluated: Mapping[int, float | None]) -> JobCheckpoint:
    data = event.data
    step, path, size = data["step"], data.get("path"), data.get("size_bytes")
    return JobCheckpoint(
        step=step,
        path=path if isinstance(path, str) else "",
        size_bytes=size if isinstance(size, int) and not isinstance(size, bool) else None,
        attempt=event.attempt,
        loss=_number(event.loss),
        eval_loss=number_or_none(data.get("eval_loss", evaluated.get(step))),
        is_best=False,
        created_at=event.created_at,
    )


def _number(text: str | None) -> float | None:
    """A JSON number that the database gave as text; None for any other value."""
    try:
        return None if text is None else float(text)
    except ValueError:
        return None


def _with_best(rows: list[JobCheckpoint]) -> list[JobCheckpoint]:
    losses = [row.eval_loss for row in rows if row.eval_loss is not None]
    if not losses:
        return rows
    # Of equal ones the earliest: nothing got better after it.
    best = max(index for index, row in enumerate(rows) if row.eval_loss == min(losses))
    rows[best] = replace(rows[best], is_best=True)
    return rows
