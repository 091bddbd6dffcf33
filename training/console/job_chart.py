"""The numbers of a run's chart: those of its page, what came since, and as CSV."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator
from typing import Any

from training.models import JobEvent, TrainingJob
from training.series import read_series
from training.series_fold import SERIES, Series, number_or_none, thin

PAGE_SERIES = ("loss", "eval_loss")  # the others are read when somebody wants to see them
PAGE_POINTS = 1000
MAX_NEW = 2000  # events that a page is told one by one; further behind it gets the whole anew


def whole_chart(job: TrainingJob, series: Series) -> dict[str, Any]:
    """All points of the page's lines, thinned, and where to go on."""
    lines = {name: thin(series.get(name, ()), PAGE_POINTS) for name in PAGE_SERIES}
    return {
        "is_whole": True,
        "next_seq": job.next_seq,
        "attempt": job.attempt,
        "num_train_steps": job.num_train_steps,
        "lines": lines,
    }


def chart_since(job: TrainingJob, since: int, attempt: int, *, db: str) -> dict[str, Any] | None:
    """What is new from event `since` on, as [name, step, value]; None if that is not enough.

    It is not when the page is far behind, or when a new attempt took back later steps.
    """
    if not 0 <= job.next_seq - since <= MAX_NEW or attempt != job.attempt:
        return None
    rows = (
        JobEvent.objects.using(db)
        .filter(run=job, attempt=attempt, type__in=("progress", "eval"))
        .filter(seq__gte=since, seq__lt=job.next_seq)
        .order_by("position", "seq")
        .values_list("data", flat=True)
    )
    points = [
        [name, data["step"], number_or_none(data[name])]
        for data in rows
        if data.get("step") is not None
        for name in SERIES
        if name in data
    ]
    return {"is_whole": False, "next_seq": job.next_seq, "attempt": attempt, "points": points}


def csv_lines(job: TrainingJob, *, db: str) -> Iterator[str]:
    """`step` and a column for each series. Only numbers and our own words: no formulas."""
    series = {name: dict(values) for name, values in read_series(job, db=db).items()}
    names = [name for name in SERIES if name in series]
    yield _csv_line(["step", *names])
    for step in sorted({step for values in series.values() for step in values}):
        yield _csv_line([step, *(series[name].get(step, "") for name in names)])


def _csv_line(cells: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line).writerow(["" if cell is None else cell for cell in cells])
    return line.getvalue()
