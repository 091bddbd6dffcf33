"""`manage.py check_dataset FILE`: the validation of an upload, offline."""

from __future__ import annotations

import argparse
from typing import Any

from django.conf import settings
from django.core.management.base import CommandError

from datasets.formats import validate
from datasets.management.dataset_command import DatasetCommand, opened
from gligabao.terminal import printable


class Command(DatasetCommand):
    help = "Validate a JSONL file as an upload would. Exit code 1 if it is not valid."
    has_rows = False
    requires_system_checks = ()

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("file")
        super().add_arguments(parser)

    def run(self, options: dict[str, Any], db: str) -> None:
        with opened(options["file"]) as (file, progress):
            result = validate(file, max_row_bytes=settings.MAX_ROW_BYTES, progress=progress)
        if options["json"]:
            self.say_json(result.report)
        else:
            self.say_report(result.report)
        if not result.is_valid:
            raise CommandError(printable(result.report["error"]), returncode=1)
        if not options["json"]:
            self.say(f"Valid: {result.num_records} rows, format {result.format}.")
