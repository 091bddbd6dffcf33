"""`manage.py follow`: the events of a job, those stored and then those that come."""

from __future__ import annotations

import argparse
from typing import Any

from training.management.arguments import count
from training.management.row_command import RowCommand
from training.management.watching import watch


class Command(RowCommand):
    help = "Watch a job until it ends. Ctrl-C ends the watching, not the job."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("run_id", type=count)
        parser.add_argument(
            "--from", type=count, default=0, dest="from_seq", metavar="N", help="first event"
        )

    def run(self, db: str, options: dict[str, Any]) -> None:
        watch(self, options["run_id"], db=db, from_seq=options["from_seq"], options=options)
