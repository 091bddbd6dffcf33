"""What a run's page shows of its checkpoints and evaluations, as ready texts."""

from __future__ import annotations

from training.checkpoints import job_checkpoints
from training.event_text import number_text
from training.models import JobEvent, TrainingJob
from training.series import Series, number_or_none
from training.templatetags.gligabao_format import moment

MISSING = "-"


def checkpoint_texts(
    job: TrainingJob, *, db: str, series: Series | None = None
) -> list[dict[str, str]]:
    """One row for each checkpoint, most steps first."""
    return [
        {
            "step": f"{row.step} (best)" if row.is_best else str(row.step),
            "size": MISSING if row.size_bytes is None else size_text(row.size_bytes),
            "loss": _loss(row.loss),
            "eval_loss": _loss(row.eval_loss),
            "written": moment(row.created_at),
        }
        for row in job_checkpoints(job, db=db, series=series)
    ]


def evaluation_text(job: TrainingJob, *, db: str) -> str:
    """The best loss on the held-out examples so far; empty where nothing is held out."""
    if not job.hyperparams.get("eval_fraction"):
        return ""
    events = JobEvent.objects.using(db).filter(run=job, source="trainer")
    reports = events.filter(type="eval").order_by("seq").values_list("data", flat=True)
    losses = [
        (loss, data["step"])
        for data in reports
        if data.get("step") is not None
        and (loss := number_or_none(data.get("eval_loss"))) is not None
    ]
    if not losses:
        return "not evaluated yet"
    loss, step = min(losses)
    text = f"{number_text(loss)} at step {step}"
    ended = events.filter(type="status").order_by("-seq").first()
    stopped_at = number_or_none(ended.data.get("stopped_early_at")) if ended else None
    return text if stopped_at is None else f"{text}; stopped early at step {stopped_at}"


def size_text(size_bytes: int) -> str:
    """Such as `29.3 MB`; a kB has 1000 bytes."""
    size, unit = float(size_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    return f"{size:.0f} {unit}" if unit == "bytes" else f"{size:.1f} {unit}"


def _loss(value: float | None) -> str:
    return MISSING if value is None else number_text(value)
