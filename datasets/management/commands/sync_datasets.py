"""`manage.py sync_datasets`: read the datasets directory into the table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from datasets.management.dataset_command import DatasetCommand
from datasets.services import sync_from_directory


class Command(DatasetCommand):
    help = "Register the folders of the datasets directory; changed files become new versions."

    def run(self, options: dict[str, Any], db: str) -> None:
        result = asdict(sync_from_directory(db))
        if options["json"]:
            self.say_json(result)
            return
        problems = result.pop("problems")
        for what, filenames in result.items():
            for filename in filenames:
                self.say(f"{what}: {filename}")
        for problem in problems:
            self.say(f"problem: {problem}")
