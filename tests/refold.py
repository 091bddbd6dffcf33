"""A job's state, folded again from the events that are stored."""

from __future__ import annotations

from collections.abc import Iterable

from training.models import JobEvent
from training.projections import Fact, JobState, fold


def refold(events: Iterable[JobEvent]) -> JobState:
    """What a row must say: the fold of all its events in the order of `seq`."""
    state = JobState()
    for event in events:
        fact = Fact(
            event.type, event.source, event.attempt, event.position, event.data, event.created_at
        )
        state = fold(state, fact)
    return state
