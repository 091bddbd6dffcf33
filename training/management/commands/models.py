"""`manage.py models`: the newest trained models."""

from __future__ import annotations

import argparse
from typing import Any

from gligabao.terminal import table_of
from training.api.serializers import TrainedModelSerializer
from training.event_text import number_text
from training.management.arguments import limit
from training.management.row_command import RowCommand
from training.models import TrainedModel

HEADINGS = ("id", "name", "base model", "dataset", "steps", "loss", "MB", "job", "made")


class Command(RowCommand):
    help = "List trained models, newest first."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--limit", type=limit, default=100)

    def run(self, db: str, options: dict[str, Any]) -> None:
        models = list(TrainedModel.objects.using(db).order_by("-pk")[: options["limit"]])
        if self.is_json:
            self.say_json({"models": TrainedModelSerializer(models, many=True).data})
        elif models:
            self.console.print(table_of(HEADINGS, map(_cells, models)))
        else:
            self.say("No trained models. A completed job makes one: manage.py train")


def _cells(model: TrainedModel) -> tuple[object, ...]:
    return (
        model.pk,
        model.name,
        model.base_model_id,
        model.dataset,
        model.num_train_steps,
        "-" if model.final_loss is None else number_text(model.final_loss),
        f"{model.size_bytes / 1e6:.1f}",
        "-" if model.run_id is None else model.run_id,
        f"{model.created_at:%Y-%m-%d %H:%M:%S}",
    )
