"""`manage.py stop`: ask a job to end at its next step."""

from __future__ import annotations

import argparse
from typing import Any

from django.core.management import CommandError

from training.feed.follow import follow_events
from training.management.arguments import count
from training.management.row_command import INTERRUPTED, RowCommand
from training.services.jobs import get_job, stop_job


class Command(RowCommand):
    help = "Stop a job. It ends at its next step."

    def add_options(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("run_id", type=count)
        parser.add_argument("--wait", action="store_true", help="return when the job is over")
        parser.add_argument("--user", help="who stops it, as its error text will say")

    def run(self, db: str, options: dict[str, Any]) -> None:
        run_id = options["run_id"]
        by = options["user"] or "the command line"
        status = stop_job(run_id, db=db, by=by) or "stopping"
        if options["wait"]:
            status = self._wait(run_id, db)
        if self.is_json:
            self.say_json({"id": run_id, "status": status})
        else:
            self.say(f"Job {run_id} is {status}.")

    def _wait(self, run_id: int, db: str) -> str:
        """The status at the end."""
        try:
            for _ in follow_events(run_id, db=db, from_seq=get_job(run_id, db=db).next_seq):
                pass
        except KeyboardInterrupt:
            raise CommandError(
                f"Stopped waiting; job {run_id} still ends at its next step.",
                returncode=INTERRUPTED,
            ) from None
        return get_job(run_id, db=db).status
