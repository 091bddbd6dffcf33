"""Folds reports into series of bounded size, the same whatever order they arrive in. Pure.

An attempt's steps lie in at most BUCKETS buckets of one width: 1, doubled whenever they would be
more. So a long job too begins with every value. Of each series and bucket the lowest and the
highest value are kept, and one that was no number; of each series also the last. With a width of
one step every value is kept, and of a step that was reported twice the report that stands later
at its trainer; in wider buckets both count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

BUCKETS = 1000
ELAPSED = "elapsed_seconds"
SERIES = (
    "loss",
    "eval_loss",
    "learning_rate",
    "grad_norm",
    "tokens",
    "tokens_per_second",
    "mean_token_accuracy",
    "gpu_memory_gib",
    "memory_gib",
    ELAPSED,
)

Point = tuple[int, float | None]  # step and value; None: it was no number
Series = dict[str, list[Point]]
# attempt: {"first": its first step, "width": steps in one bucket, "last": {name: point},
# "series": {name: {bucket: [low, high, gap]}}}, where a point, and each of the three or None, is
# [step, value, position]. Keys are texts, as JSON has them.
Folded = dict[str, dict[str, Any]]


def fold_report(folded: Folded, *, attempt: int, position: int, data: Mapping[str, Any]) -> None:
    """Add the numbers of one progress or eval report. Changes `folded`."""
    step = data.get("step")
    if step is None:
        return
    new = {"first": step, "width": 1, "last": {}, "series": {}}
    of_attempt = folded.setdefault(str(attempt), new)
    of_attempt["first"] = min(of_attempt["first"], step)
    while step // of_attempt["width"] >= BUCKETS:
        _widen(of_attempt)
    width = of_attempt["width"]
    for name in SERIES:
        if name in data:
            point = [step, number_or_none(data[name]), position]
            buckets = of_attempt["series"].setdefault(name, {})
            bucket = buckets.setdefault(str(step // width), [None, None, None])
            _take(bucket, point, is_exact=width == 1)
            last = of_attempt["last"].get(name, point)
            of_attempt["last"][name] = max(last, point, key=_by_place)


def _widen(of_attempt: dict[str, Any]) -> None:
    """Make one bucket of each two."""
    of_attempt["width"] *= 2
    for name, buckets in of_attempt["series"].items():
        wider: dict[str, list[Any]] = {}
        for number, bucket in buckets.items():
            into = wider.setdefault(str(int(number) // 2), [None, None, None])
            for point in bucket:
                if point is not None:
                    _take(into, point, is_exact=False)
        of_attempt["series"][name] = wider


def _take(bucket: list[Any], point: list[Any], *, is_exact: bool) -> None:
    low, high, gap = bucket
    if is_exact:
        # One step: the later report counts, whatever its value.
        if low is None or point[2] >= low[2]:
            bucket[:] = [point, None, None]
    elif point[1] is None:
        bucket[2] = point if gap is None else min(gap, point)
    else:
        bucket[0] = point if low is None else min(low, point, key=_by_value)
        bucket[1] = point if high is None else max(high, point, key=_by_value)


def _by_value(point: list[Any]) -> tuple[float, int, int]:
    return point[1], point[0], point[2]


def _by_place(point: list[Any]) -> tuple[int, int]:
    return point[0], point[2]


def series_of(folded: Folded) -> Series:
    """(step, value) of every series by its name, steps rising.

    Of an attempt that a later one took up again before its end, what lies behind that place is
    left out: it is no part of what is trained now. Time goes on over attempts, though each
    trainer counts from zero.
    """
    series: dict[str, dict[int, float | None]] = {}
    end: float = float("inf")
    pieces = []
    for attempt in sorted(map(int, folded), reverse=True):
        of_attempt = folded[str(attempt)]
        pieces.append((of_attempt, end))
        end = min(end, of_attempt["first"])
    elapsed = 0.0
    for of_attempt, stop in reversed(pieces):
        start = elapsed
        for name, buckets in of_attempt["series"].items():
            buckets = [*buckets.values(), [of_attempt["last"][name]]]
            for step, value in _points(buckets, stop):
                if name == ELAPSED and value is not None:
                    value += start
                    elapsed = max(elapsed, value)
                series.setdefault(name, {})[step] = value
    return {name: sorted(by_step.items()) for name, by_step in series.items()}


def _points(buckets: Iterable[list[Any]], stop: float) -> Iterable[Point]:
    for bucket in buckets:
        for point in bucket:
            if point is not None and point[0] < stop:
                yield point[0], point[1]


def number_or_none(value: Any) -> float | None:
    """Most fields of a report may hold anything."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return value if is_number else None


def thin(values: list[Point] | tuple[Point, ...], points: int) -> list[list[Any]]:
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


def _extremes(stretch: list[Point] | tuple[Point, ...]) -> list[Point]:
    numbers = [value for value in stretch if value[1] is not None]
    if not numbers:
        return list(stretch[:1])
    lowest = min(numbers, key=lambda value: value[1])
    highest = max(numbers, key=lambda value: value[1])
    return sorted({lowest, highest})
