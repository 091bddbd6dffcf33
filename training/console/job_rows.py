"""A job as one row of a list: what the list of runs, the overview and comparisons show of it."""

from __future__ import annotations

from dataclasses import dataclass

from django.utils.translation import gettext as _

from training.console.numbers import measured
from training.event_text import nonfinite_text
from training.models import TrainingJob
from training.progress import percent_done

MISSING = "-"


@dataclass(frozen=True)
class JobRow:
    """A job with its numbers as texts; percent for a bar, 0 to 100."""

    job: TrainingJob
    title: str
    percent: int
    loss: str
    final_loss: str


def job_row(job: TrainingJob) -> JobRow:
    return JobRow(
        job=job,
        title=job_title(job),
        percent=percent_done(job.last_step, job.num_train_steps),
        loss=last_loss_text(job),
        final_loss=loss_text(job.final_loss),
    )


def job_title(job: TrainingJob) -> str:
    """The name that its owner gave it, else its number."""
    return job.name or _("Run %(id)s") % {"id": job.pk}


def last_loss_text(job: TrainingJob) -> str:
    if job.last_loss is None:
        return nonfinite_text(job.last_loss_nonfinite) or MISSING
    return measured(job.last_loss)


def loss_text(value: float | None) -> str:
    return MISSING if value is None else measured(value)
