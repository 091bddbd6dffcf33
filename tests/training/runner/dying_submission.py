"""Submits jobs with workers that end at one statement after the other of the whole submission.

Run as `python dying_submission.py` in a data folder of its own, on the real local provider and
SQLite. Each round has its own job: a worker that dies at statement N of `submit_job`, then,
when its claim has lapsed, other workers until the job is over. Prints one JSON line per round.
"""

from __future__ import annotations

import json
import os
import sys
import time

import django

django.setup()

from django.conf import settings  # noqa: E402
from django.core.management import call_command  # noqa: E402
from django.db import connections  # noqa: E402
from django.utils import timezone  # noqa: E402

from tests.factories import make_dataset, make_job  # noqa: E402
from tests.training.providers.dying_worker import STARTED, die_at, in_worker  # noqa: E402
from tests.training.providers.local_runs import make_provider  # noqa: E402
from training import providers  # noqa: E402
from training.models import TrainingJob  # noqa: E402
from training.models.job import CLAIM_LIFETIME  # noqa: E402
from training.runner import follow, submit  # noqa: E402

# The statements between the claim and the row that says it was submitted; those inside the
# provider have their own test.
OURS = ("/training/runner/submit.py",)
DB = "default"


def round_of(number: int, dataset_sha256: str) -> dict:
    job = make_job(DB, dataset_sha256=dataset_sha256)
    connections.close_all()

    def first() -> None:
        die_at(number, OURS)
        submit.submit_job(DB, job.pk)
        sys.settrace(None)

    got_through = in_worker(first) == STARTED
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        rows = TrainingJob.objects.using(DB).filter(pk=job.pk)
        rows.filter(claimed_at__isnull=False).update(claimed_at=timezone.now() - 2 * CLAIM_LIFETIME)
        rows.update(next_poll_at=timezone.now())
        connections.close_all()
        in_worker(lambda: submit.submit_due(DB))
        in_worker(lambda: [follow.follow_run(DB, *due) for due in follow.claim_due(DB)])
        job = rows.get()
        if job.is_final:
            break
        time.sleep(0.01)
    starts = settings.JOBS_DIR / job.job_id / "starts.txt"
    return {
        "statement": number,
        "starts": len(starts.read_text().splitlines()),
        "finals": job.events.using(DB).filter(is_final=True).count(),
        "status": job.status,
        "got_through": got_through,
    }


def main() -> None:
    call_command("migrate", verbosity=0)
    provider = make_provider(settings.DATA_DIR, "--steps", "1", num_slots=1)
    providers.PROVIDERS["local"] = lambda: provider
    digest = make_dataset().sha256
    number, got_through = 1, False
    while not got_through:
        result = round_of(number, digest)
        got_through = result.pop("got_through")
        print(json.dumps(result), flush=True)
        number += 1


if __name__ == "__main__":
    os.umask(0o077)
    main()
