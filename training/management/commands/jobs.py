"""`manage.py jobs`: the newest jobs."""

from __future__ import annotations

import argparse
from typing import Any

from gligabao.terminal import table_of
from training.api.serializers import JobSerializer
from training.event_text import nonfinite_text, number_text
from training.management.arguments import limit
from training.management.row_command import RowCommand
from training.models import TrainingJob
from training.states import JobStatus

HEADINGS = ("id", "status", "base model", "dataset", "step", "loss", "started", "name")


class Command(RowCommand):
    help = "List jobs, newest first."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--status", choices=JobStatus.values)
        parser.add_argument("--limit", type=limit, default=50)

    def run(self, db: str, options: dict[str, Any]) -> None:
        rows = TrainingJob.objects.using(db).order_by("-pk")
        if options["status"]:
            rows = rows.filter(status=options["status"])
        jobs = list(rows[: options["limit"]])
        if self.is_json:
            self.say_json({"jobs": JobSerializer(jobs, many=True).data})
        elif jobs:
            self.console.print(table_of(HEADINGS, map(_cells, jobs)))
        else:
            self.say("No jobs. Start one: manage.py train")


def _cells(job: TrainingJob) -> tuple[object, ...]:
    if job.last_loss is None:
        loss = nonfinite_text(job.last_loss_nonfinite) or "-"
    else:
        loss = number_text(job.last_loss)
    return (
        job.pk,
        f"{job.status}, stopping" if job.is_stopping else job.status,
        job.base_model,
        job.dataset,
        f"{job.last_step} / {job.num_train_steps}",
        loss,
        f"{job.started_at:%Y-%m-%d %H:%M:%S}" if job.started_at else "-",
        job.name,
    )
