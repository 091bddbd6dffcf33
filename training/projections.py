"""Folds events into a job's row. Pure: values in, values out; the row is the fold of its log.

Trainer events fold by attempt and position (the trainer's own numbering), never by the order
of their arrival. The server's own events fold where they stand in `seq`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from typing import Any

from training.states import JobStatus, Outcome, Reason, can_follow, parse_status

MAX_WARNINGS = 50
MAX_CURVE = 64
SILENCE = "no_news"  # `is_stale` shows it while it lasts; it is no lasting warning
MAX_WARNING_TEXT = 500
MAX_ERROR_TEXT = 4000
_CLAIMS = {
    JobStatus.COMPLETED: Outcome.COMPLETED,
    JobStatus.FAILED: Outcome.FAILED,
    JobStatus.CANCELLED: Outcome.CANCELLED,
}


@dataclass(frozen=True)
class Fact:
    """What of an event matters to the row. `status` is what was reported, aliases resolved."""

    type: str
    source: str
    attempt: int
    position: int
    data: Mapping[str, Any]
    at: datetime

    @property
    def reported(self) -> JobStatus | None:
        word = self.data.get("reported", self.data.get("status"))
        return parse_status(word) if self.type == "status" and isinstance(word, str) else None


@dataclass(frozen=True)
class JobState:
    """The fields of a job's row that events write; names as in the row."""

    status: str = JobStatus.QUEUED
    attempt: int = 1
    outcome: str = ""
    outcome_at: datetime | None = None
    reason: str = ""
    error: str = ""
    warnings: list[dict[str, Any]] = field(default_factory=list)
    last_step: int = 0
    last_loss: float | None = None
    last_loss_nonfinite: str = ""
    final_loss: float | None = None
    # {"stride", "points": [[step, attempt, position, loss], ...]}: some losses, for small curves.
    curve: dict[str, Any] = field(default_factory=dict)
    submitted_at: datetime | None = None
    started_at: datetime | None = None
    last_seen_at: datetime | None = None
    stop_requested_at: datetime | None = None
    stop_requested_by: str = ""
    finished_at: datetime | None = None
    # For `step` and `loss`: attempt and position of the event that set it.
    fold_keys: dict[str, list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, row: Any) -> JobState:
        return cls(**{name: getattr(row, name) for name in FIELDS})

    @property
    def is_final(self) -> bool:
        return JobStatus(self.status).is_final


FIELDS = tuple(item.name for item in fields(JobState))


def fold(state: JobState, fact: Fact) -> JobState:
    """The state after one more event. Late reports move `last_step` and `last_loss` only."""
    if fact.source == "server":
        return _fold_server(state, fact)
    state = _fold_progress(state, fact)
    if state.is_final:
        return state
    state = replace(state, last_seen_at=fact.at, started_at=state.started_at or fact.at)
    if fact.type == "warning":
        return _fold_warning(state, fact)
    if fact.type == "status" and fact.attempt == state.attempt:
        return _fold_reported(state, fact)
    return state


def _fold_progress(state: JobState, fact: Fact) -> JobState:
    if fact.type != "progress":
        return state
    key = [fact.attempt, fact.position]
    keys = dict(state.fold_keys)
    if fact.data.get("step") is not None and key >= keys.get("step", [0, 0]):
        keys["step"] = key
        state = replace(state, last_step=fact.data["step"], fold_keys=keys)
    if "loss" in fact.data and key >= keys.get("loss", [0, 0]):
        keys["loss"] = key
        loss = fact.data["loss"]
        state = replace(
            state,
            last_loss=None if loss is None else float(loss),
            last_loss_nonfinite=_nonfinite(fact.data) if loss is None else "",
            fold_keys=keys,
        )
    return _fold_curve(state, fact)


def _fold_curve(state: JobState, fact: Fact) -> JobState:
    """Keep the losses at steps that are multiples of a stride: of the smallest power of two with
    which they are MAX_CURVE at most. So what is kept does not depend on the order of arrival."""
    step, loss = fact.data.get("step"), fact.data.get("loss")
    stride = state.curve.get("stride", 1)
    if step is None or loss is None or step % stride:
        return state
    points = {point[0]: point for point in state.curve.get("points", ())}
    known = points.get(step)
    if known is None or (known[1], known[2]) <= (fact.attempt, fact.position):
        points[step] = [step, fact.attempt, fact.position, float(loss)]
    while len(points) > MAX_CURVE:
        stride *= 2
        points = {step: point for step, point in points.items() if step % stride == 0}
    kept = [points[step] for step in sorted(points)]
    return replace(state, curve={"stride": stride, "points": kept})


def _nonfinite(data: Mapping[str, Any]) -> str:
    word = data.get("nonfinite")
    return word if word in ("nan", "inf") else ""


def _fold_warning(state: JobState, fact: Fact) -> JobState:
    warning = {
        "code": str(fact.data.get("code", "warning"))[:64],
        "message": str(fact.data.get("message", ""))[:MAX_WARNING_TEXT],
    }
    if warning in state.warnings or len(state.warnings) >= MAX_WARNINGS:
        return state
    return replace(state, warnings=[*state.warnings, warning])


def _fold_reported(state: JobState, fact: Fact) -> JobState:
    """A trainer's status. Its end is a claim: it fixes the outcome, the row ends later."""
    reported = fact.reported
    if reported is None:
        return state
    if reported in _CLAIMS:
        return _fold_claim(state, reported, fact)
    if can_follow(JobStatus(state.status), reported):
        return replace(state, status=reported)
    return state


def _fold_claim(state: JobState, reported: JobStatus, fact: Fact) -> JobState:
    if state.outcome:
        return state
    state = replace(state, outcome=_CLAIMS[reported], outcome_at=fact.at)
    if reported is JobStatus.COMPLETED:
        forward = can_follow(JobStatus(state.status), JobStatus.UPLOADING)
        return replace(
            state,
            status=JobStatus.UPLOADING if forward else state.status,
            final_loss=fact.data.get("final_loss"),
        )
    if reported is JobStatus.CANCELLED:
        return replace(
            state, reason=Reason.USER_STOP, error=_stopped_by(state, fact.data.get("error"))
        )
    reason = fact.data.get("reason")
    return replace(
        state,
        reason=reason if reason in Reason.values else Reason.TRAINER_ERROR,
        error=str(fact.data.get("error") or "")[:MAX_ERROR_TEXT],
    )


def _stopped_by(state: JobState, said: Any) -> str:
    if state.stop_requested_by:
        return f"Stopped by {state.stop_requested_by}."
    return str(said or "The trainer was stopped without a request from here.")[:MAX_ERROR_TEXT]


def _fold_server(state: JobState, fact: Fact) -> JobState:
    if state.is_final:
        return state
    if fact.type == "warning" and fact.data.get("code") != SILENCE:
        return _fold_warning(state, fact)
    if fact.type != "status":
        return state
    data, status = fact.data, fact.reported
    if data.get("started_at"):
        started_at = datetime.fromisoformat(data["started_at"])
        state = replace(state, started_at=min(state.started_at or started_at, started_at))
    if data.get("is_stopping") and state.stop_requested_at is None:
        state = replace(
            state, stop_requested_at=fact.at, stop_requested_by=str(data.get("by", ""))[:150]
        )
    if data.get("attempt") is not None:
        return replace(state, attempt=data["attempt"], status=status)
    if data.get("outcome") and not state.outcome:
        state = replace(
            state,
            outcome=data["outcome"],
            outcome_at=fact.at,
            reason=data.get("reason", ""),
            error=data.get("error", ""),
        )
    if status.is_final:
        return _fold_end(state, status, fact)
    if status == JobStatus.STARTED and state.submitted_at is None:
        state = replace(state, submitted_at=fact.at)
    if can_follow(JobStatus(state.status), status):
        return replace(state, status=status)
    return state


def _fold_end(state: JobState, status: JobStatus, fact: Fact) -> JobState:
    data = fact.data
    finished_at = data.get("finished_at")
    return replace(
        state,
        status=status,
        outcome=status.value,
        outcome_at=state.outcome_at or fact.at,
        reason=data.get("reason", ""),
        error=data.get("error", ""),
        final_loss=data.get("final_loss"),
        finished_at=datetime.fromisoformat(finished_at) if finished_at else fact.at,
    )
