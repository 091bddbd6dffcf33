"""Series for charts: values by step, thinned without losing the extremes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from training.models import JobEvent, TrainingJob

MAX_POINTS = 10_000
SERIES = (
    "loss",
    "eval_loss",
    "learning_rate",
    "grad_norm",
    "tokens_per_second",
    "mean_token_accuracy",
    "gpu_memory_gib",
    "memory_gib",
)


Series = dict[str, list[tuple[int, float | None]]]


def job_series(job: TrainingJob, *, db: str, points: int) -> dict[str, Any]:
    """`{"series": {name: [[step, value], ...]}, "last_seq"}`, thinned to `points`."""
    series = read_series(job, db=db)
    return {
        "series": {name: thin(values, points) for name, values in series.items()},
        "last_seq": job.next_seq - 1,
    }


def read_series(job: TrainingJob, *, db: str) -> Series:
    """(step, value) of every series by its name, steps rising.

    Where a step was reported more than once (after a resume), the one that folds last counts.
    A value that was no number is None: a gap.
    """
    rows = (
        JobEvent.objects.using(db)
        .filter(run=job, type__in=("progress", "eval"))
        .order_by("attempt", "position", "seq")
        .values_list("data", flat=True)
    )
    series: dict[str, dict[int, float | None]] = {}
    for data in rows.iterator(chunk_size=2000):
        step = data.get("step")
        if step is None:
            continue
        for name in SERIES:
            if name in data:
                series.setdefault(name, {})[step] = number_or_none(data[name])
    return {name: sorted(by_step.items()) for name, by_step in series.items()}


def number_or_none(value: Any) -> float | None:
    """Most fields of a report may hold anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def thin(values: Sequence[tuple[int, float | None]], points: int) -> list[list[Any]]:
    """At most about `points` of the values: of each stretch the lowest and the highest stay,
    and so do its gaps' first value, and the first and last of all."""
    if len(values) <= points:
        return [list(value) for value in values]
    num_stretches = max(1, (points - 2) // 2)
    inner = values[1:-1]
    kept = [values[0]]
    for index in range(num_stretches):
        start = index * len(inner) // num_stretches
        stop = (index + 1) * len(inner) // num_stretches
        kept.extend(_extremes(inner[start:stop]))
    kept.append(values[-1])
    return [list(value) for value in kept]


def _extremes(
    stretch: Sequence[tuple[int, float | None]],
) -> list[tuple[int, float | None]]:
    numbers = [value for value in stretch if value[1] is not None]
    if not numbers:
        return list(stretch[:1])
    lowest = min(numbers, key=lambda value: value[1])
    highest = max(numbers, key=lambda value: value[1])
    return sorted({lowest, highest})
