"""`manage.py import_dataset FILE`: what an upload does, from this machine."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from datasets.api.serializers import DatasetSerializer
from datasets.management.dataset_command import DatasetCommand, opened
from datasets.services import save_upload


class Command(DatasetCommand):
    help = "Validate a JSONL file and store it under its name."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file")
        parser.add_argument("--name", help="a title to show")
        parser.add_argument("--description")
        super().add_arguments(parser)

    def run(self, options: dict[str, Any], db: str) -> None:
        with opened(options["file"]) as (file, progress):
            dataset, outcome = save_upload(
                file,
                filename=Path(options["file"]).name,
                name=options["name"],
                description=options["description"],
                db=db,
                progress=progress,
            )
        if options["json"]:
            self.say_json(DatasetSerializer(dataset).data)
            return
        self.say_report(dataset.report)
        self.say(
            f"{dataset.filename}: {outcome.value}, {dataset.num_records} rows, "
            f"format {dataset.format}, digest {dataset.sha256[:12]}."
        )
