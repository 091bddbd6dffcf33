"""What the pages show of a job, as ready texts: the same on the page and in live updates."""

from __future__ import annotations

from typing import Any

from gligabao.console import page_url
from training.console.checkpoint_texts import MISSING, evaluation_text
from training.event_text import nonfinite_text, number_text
from training.models import JobEvent, TrainedModel, TrainingJob
from training.progress import percent_done, seconds_left
from training.series import number_or_none
from training.states import JobStatus
from training.templatetags.gligabao_format import moment

SPEED_EVENTS = 50  # the last reports that speed and time left are read from


def row_texts(job: TrainingJob) -> dict[str, Any]:
    """One row of the list."""
    return {
        "id": job.pk,
        "url": page_url("console:job", job.pk),
        "name": f"Run {job.pk}: {job.name}" if job.name else f"Run {job.pk}",
        "status": job.status,
        "status_text": _status_text(job),
        "base_model": job.base_model,
        "dataset": job.dataset,
        "steps": f"{job.last_step} / {job.num_train_steps}",
        "percent": percent_done(job.last_step, job.num_train_steps),
        "loss": _loss_text(job),
        "started": moment(job.started_at),
    }


def job_texts(job: TrainingJob, *, db: str) -> dict[str, Any]:
    """The head of a job's page. Texts are empty where there is nothing to say."""
    model = TrainedModel.objects.using(db).filter(run=job).first()
    return row_texts(job) | {
        "is_over": job.is_final,
        "can_stop": not job.is_final,
        "reason": job.reason_sentence,
        "error": job.error,
        "warnings": [str(warning.get("message", "")) for warning in job.warnings],
        "time_left": _time_left(job, db),
        "silence": f"No news since {moment(job.last_seen_at)}." if job.is_stale else "",
        "attempt": str(job.attempt),
        "evaluation": evaluation_text(job, db=db),
        "effect": _effect_text(job, db),
        "final_loss": MISSING if job.final_loss is None else number_text(job.final_loss),
        "finished": moment(job.finished_at),
        "model_name": model.name if model else "",
        "model_url": page_url("training-api:model", model.pk) if model else "",
        "next_seq": job.next_seq,
    }


def _status_text(job: TrainingJob) -> str:
    label = JobStatus(job.status).label
    return f"{label}, stopping" if job.is_stopping else label


def _loss_text(job: TrainingJob) -> str:
    if job.last_loss is None:
        return nonfinite_text(job.last_loss_nonfinite) or MISSING
    return number_text(job.last_loss)


def _effect_text(job: TrainingJob, db: str) -> str:
    """What the finished files change on training answers, as the trainer proved it."""
    said = JobEvent.objects.using(db).filter(run=job, source="trainer", type="status")
    newest = said.order_by("-seq").first()
    effect = newest.data.get("effect") if newest else None
    if not isinstance(effect, dict):
        return ""
    before, after = (number_or_none(effect.get(name)) for name in ("base_loss", "tuned_loss"))
    if before is None or after is None:
        return ""
    return f"loss {number_text(before)} with the base model, {number_text(after)} tuned"


def _time_left(job: TrainingJob, db: str) -> str:
    if job.status != JobStatus.TRAINING or job.is_stopping:
        return ""
    events = JobEvent.objects.using(db).filter(
        run=job, attempt=job.attempt, type__in=("status", "progress"), source="trainer"
    )
    newest = list(events.order_by("-seq")[:SPEED_EVENTS])
    seconds = seconds_left(newest[::-1], job.num_train_steps)
    return "" if seconds is None else f"about {duration_text(seconds)}"


def duration_text(seconds: float) -> str:
    """Such as `2 min 5 s`: the two largest units."""
    left = round(seconds)
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
