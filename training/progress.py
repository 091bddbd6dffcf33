"""How much longer a job's steps will take. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol


class ProgressEvent(Protocol):
    """What of a stored event matters here."""

    type: str
    attempt: int
    data: Mapping[str, Any]


def seconds_left(events: Sequence[ProgressEvent], num_train_steps: int) -> float | None:
    """Seconds until the last step; None while they cannot be told.

    Only progress since the newest attempt began or was resumed counts, and it takes two
    reports: start-up and earlier attempts say nothing about the speed of now. Never negative.
    `events` come in their order; the last few dozen are enough.
    """
    places = _stretch(events)
    if len(places) < 2:
        return None
    (first_step, first_at), (step, at) = places[0], places[-1]
    if step >= num_train_steps:
        return 0.0
    if step <= first_step or at <= first_at:
        return None
    return (num_train_steps - step) * (at - first_at) / (step - first_step)


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
