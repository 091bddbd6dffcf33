"""What a run's page shows of a job beside its chart and its events, as ready texts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.functional import cached_property
from django.utils.translation import gettext as _

from gligabao.units import count_text, duration_text
from training.checkpoints import JobCheckpoint, job_checkpoints
from training.console.job_rows import MISSING, job_title, last_loss_text, loss_text
from training.console.numbers import measured
from training.event_text import number_text
from training.models import JobAttempt, JobEvent, TrainedModel, TrainingJob
from training.progress import percent_done, time_left
from training.series_fold import number_or_none
from training.states import UNFINISHED, JobStatus

SPEED_EVENTS = 50  # the last reports that speed and time left are read from
# What each phase is called on the way; the last is where a job without a problem ends.
PHASES = (*UNFINISHED, JobStatus.COMPLETED)


@dataclass(frozen=True)
class Phase:
    """One step of a job's way; `state` is done, current, failed, cancelled or empty."""

    status: JobStatus
    state: str
    icon: str


@dataclass(frozen=True)
class Stat:
    label: str
    value: str
    remark: str = ""


class JobPage:
    """A job with what its page says of it. Each part is read when the template asks for it."""

    def __init__(self, job: TrainingJob, *, db: str) -> None:
        self.job = job
        self.db = db
        self.title = job_title(job)
        self.percent = percent_done(job.last_step, job.num_train_steps)

    @cached_property
    def model(self) -> TrainedModel | None:
        return TrainedModel.objects.using(self.db).filter(run=self.job).first()

    @cached_property
    def attempts(self) -> list[JobAttempt]:
        return list(self.job.attempts.using(self.db).order_by("attempt"))

    @cached_property
    def checkpoints(self) -> list[JobCheckpoint]:
        return job_checkpoints(self.job, db=self.db)

    @property
    def phases(self) -> list[Phase]:
        reached = self._reached
        found = []
        for status in PHASES:
            if status == JobStatus(self.job.status):
                state, icon = ("done", "check") if self.job.is_final else ("current", "ring")
            elif PHASES.index(status) < PHASES.index(reached):
                state, icon = "done", "check"
            elif status == reached:  # where it ended without a model
                state, icon = ("failed", "cross") if self._has_failed else ("cancelled", "stop")
            else:
                state, icon = "", "dot"
            found.append(Phase(status, state, icon))
        return found

    @property
    def progress(self) -> str:
        """Such as `Step 437 of 1000 (43 %)`, and what it waits for where it has not begun."""
        job = self.job
        words = {
            JobStatus.QUEUED: _("Waits for its turn."),
            JobStatus.STARTED: _("Waits for hardware."),
            JobStatus.RUNNING: _("Loads the model and the data."),
        }
        if not job.last_step and job.status in words:
            return words[JobStatus(job.status)]
        return _("Step %(step)s of %(total)s (%(percent)s %%)") % {
            "step": count_text(job.last_step),
            "total": count_text(job.num_train_steps),
            "percent": self.percent,
        }

    @cached_property
    def time_left(self) -> str:
        """With a range where the speed changed; empty while it cannot be told."""
        if self.job.status != JobStatus.TRAINING or self.job.is_stopping:
            return ""
        events = self._events.filter(attempt=self.job.attempt, type__in=("status", "progress"))
        left = time_left(
            list(events.order_by("-seq")[:SPEED_EVENTS])[::-1], self.job.num_train_steps
        )
        if left is None:
            return ""
        text = _("about %(time)s left") % {"time": duration_text(left.seconds)}
        least, most = duration_text(left.least), duration_text(left.most)
        if least == most or left.most < left.least * 1.2:
            return text
        return _("%(text)s (%(least)s to %(most)s)") % {"text": text, "least": least, "most": most}

    @property
    def stats(self) -> list[Stat]:
        """The strip of numbers: of the newest report, and of the whole run."""
        memory = self._latest("gpu_memory_gib") or self._latest("memory_gib")
        stats = [
            Stat(_("Loss"), last_loss_text(self.job)),
            Stat(_("Mean of all steps"), loss_text(self.job.final_loss)),
            Stat(_("Learning rate"), self._latest("learning_rate") or MISSING),
            Stat(_("Speed"), self._latest("tokens_per_second") or MISSING, _("tokens/s")),
            Stat(_("Memory"), memory or MISSING, "GiB"),
        ]
        return [*stats[:1], *self._eval_stat, *stats[1:]]

    @property
    def settings(self) -> list[tuple[str, str]]:
        """All that the job runs with, by the names of the API."""
        job = self.job
        values = {
            "base_model": job.base_model,
            "model_source": job.model_source,
            "method": job.method,
            "provider": job.provider,
            "num_train_steps": job.num_train_steps,
            "max_seconds": job.max_seconds,
            **job.hyperparams,
        }
        return [(name, setting_text(value)) for name, value in values.items()]

    @property
    def effect(self) -> str:
        """What the finished files change on training answers, as the trainer proved it."""
        effect = self._last_said.get("effect")
        if not isinstance(effect, dict):
            return ""
        before, after = (number_or_none(effect.get(name)) for name in ("base_loss", "tuned_loss"))
        if before is None or after is None:
            return ""
        return _("loss on training answers %(before)s with the base model, %(after)s tuned") % {
            "before": measured(before),
            "after": measured(after),
        }

    @property
    def warnings(self) -> list[str]:
        return [str(warning.get("message", "")) for warning in self.job.warnings]

    @property
    def _events(self) -> Any:
        return JobEvent.objects.using(self.db).filter(run=self.job, source="trainer")

    @property
    def _has_failed(self) -> bool:
        return self.job.status == JobStatus.FAILED

    @cached_property
    def _reached(self) -> JobStatus:
        """The last phase that the job was in."""
        if self.job.status in PHASES:
            return JobStatus(self.job.status)
        said = JobEvent.objects.using(self.db).filter(run=self.job, type="status")
        for data in said.order_by("-seq").values_list("data", flat=True)[:10]:
            if data.get("status") in UNFINISHED:
                return JobStatus(data["status"])
        return JobStatus.QUEUED

    @cached_property
    def _last_said(self) -> Mapping[str, Any]:
        """The trainer's last word on its status."""
        said = self._events.filter(type="status").order_by("-seq")
        return said.values_list("data", flat=True).first() or {}

    @cached_property
    def _report(self) -> Mapping[str, Any]:
        newest = self._events.filter(type="progress", attempt=self.job.attempt)
        return newest.order_by("-seq").values_list("data", flat=True).first() or {}

    def _latest(self, name: str) -> str:
        value = number_or_none(self._report.get(name))
        return "" if value is None else measured(value)

    @property
    def _eval_stat(self) -> list[Stat]:
        """The newest and the best loss on the held-out examples; none where nothing is held out."""
        if not self.job.hyperparams.get("eval_fraction"):
            return []
        reports = self._events.filter(type="eval").order_by("seq").values_list("data", flat=True)
        losses = [
            (loss, data["step"])
            for data in reports
            if data.get("step") is not None
            and (loss := number_or_none(data.get("eval_loss"))) is not None
        ]
        if not losses:
            return [Stat(_("Eval loss"), MISSING, _("not evaluated yet"))]
        best, step = min(losses)
        remark = _("best %(loss)s at step %(step)s") % {"loss": measured(best), "step": step}
        stopped_at = number_or_none(self._last_said.get("stopped_early_at"))
        if stopped_at is not None:
            remark = _("%(best)s; stopped early at step %(step)s") % {
                "best": remark,
                "step": measured(stopped_at),
            }
        return [Stat(_("Eval loss"), measured(losses[-1][0]), remark)]


def setting_text(value: Any) -> str:
    if isinstance(value, bool):
        return _("yes") if value else _("no")
    return number_text(value) if isinstance(value, int | float) else str(value)
