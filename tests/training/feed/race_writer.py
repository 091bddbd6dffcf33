"""The writer of a race: `python -m tests.training.feed.race_writer TASK`.

Writes the jobs in turn, sometimes several events at once, and ends each with its final event.
Prints how many events each job has.
"""

from __future__ import annotations

import json
import random
import sys
import time

import django

django.setup()

from gligabao.databases import alias_of  # noqa: E402
from training.contract import parse_report, server_event  # noqa: E402
from training.events import append_events  # noqa: E402

BURSTS = (1, 1, 1, 1, 2, 5, 20)


def main():
    task = json.loads(sys.argv[1])
    db = alias_of(task["db"])
    chance = random.Random(task["seed"])
    started = time.monotonic()
    written = 0
    while written < task["num_events"] - 1:
        burst = min(chance.choice(BURSTS), task["num_events"] - 1 - written)
        for run_id in task["run_ids"]:
            append_events(run_id, [_report(written + n) for n in range(burst)], db=db)
        written += burst
        print(written, flush=True)
        due = started + written / task["events_per_second"]
        time.sleep(max(0, due - time.monotonic()))
    for run_id in task["run_ids"]:
        final = server_event("status", status="cancelled", reason="user_stop", error="")
        append_events(run_id, [final], db=db)


def _report(number):
    return parse_report(
        {
            "type": "progress",
            "boot": "race",
            "seq": number,
            "step": number,
            "loss": 1 / (1 + number),
        }
    )


if __name__ == "__main__":
    main()
