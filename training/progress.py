"""How much longer a job's steps will take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

PIECES = 4  # of a stretch, whose speeds tell how sure the estimate is


class ProgressEvent(Protocol):
    """What of a stored event matters here."""

    type: str
    attempt: int
    data: Mapping[str, Any]


@dataclass(frozen=True)
class TimeLeft:
    """Seconds until the last step: at the mean speed, and at the best and worst seen lately."""

    seconds: float
    least: float
    most: float


def time_left(events: Sequence[ProgressEvent], num_train_steps: int) -> TimeLeft | None:
    """The time until the last step; None while it cannot be told.

    Only progress since the newest attempt began or was resumed counts, and it takes two
    reports: start-up and earlier attempts say nothing about the speed of now. Never negative.
    The range comes from the speeds of up to four pieces of that stretch. `events` come in
    their order; the last few dozen are enough.
    """
    places = _stretch(events)
    if len(places) < 2:
        return None
    step = places[-1][0]
    if step >= num_train_steps:
        return TimeLeft(0.0, 0.0, 0.0)
    mean = _pace(places[0], places[-1])
    if mean is None:
        return None
    cuts = sorted({round(index * (len(places) - 1) / PIECES) for index in range(PIECES + 1)})
    pieces = [_pace(places[a], places[b]) for a, b in pairwise(cuts)]
    paces = [mean, *(pace for pace in pieces if pace is not None)]
    left = num_train_steps - step
    return TimeLeft(left * mean, left * min(paces), left * max(paces))


def _pace(first: tuple[int, float], last: tuple[int, float]) -> float | None:
    """Seconds per step between two places; None if nothing passed."""
    steps, seconds = last[0] - first[0], last[1] - first[1]
    return seconds / steps if steps > 0 and seconds > 0 else None


def _stretch(events: Sequence[ProgressEvent]) -> list[tuple[int, float]]:
    """(step, elapsed seconds) of the progress reports of the newest stretch."""
    attempt = max((event.attempt for event in events), default=0)
    places: list[tuple[int, float]] = []
    for event in events:
        if event.attempt != attempt:
            continue
        step, elapsed = event.data.get("step"), event.data.get("elapsed_seconds")
        if event.data.get("resumed_from_step") is not None:
            places.clear()
        elif event.type == "progress" and step is not None and elapsed is not None:
            places.append((step, float(elapsed)))
    return places


def percent_done(step: int, num_train_steps: int) -> int:
    """For a bar: 0 to 100, whatever was reported."""
    if num_train_steps <= 0:
        return 0
    return max(0, min(100, step * 100 // num_train_steps))
