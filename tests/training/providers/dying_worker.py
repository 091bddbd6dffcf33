"""Submits one job again and again in workers that end at one statement after the other.

Run as `python dying_worker.py FOLDER`. Each round has its own job: a worker that dies at
statement N of the submission, then other workers that try again until a run is over. Prints one
JSON line per round: the statement, and how many trainers passed the claim.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

import django

django.setup()

from tests.training.providers.local_runs import make_provider, make_spec  # noqa: E402
from training.providers.base import Phase, ProviderBusy  # noqa: E402

OURS = ("/training/providers/", "/training/contract.py")
FORKING = "_execute_child"  # of subprocess: the statements around the fork itself
LANES = 4  # at once; a round is mostly waiting
STARTED = 70  # the worker reached its end before the statement


def die_at(number: int, parts: tuple[str, ...] = OURS) -> None:
    """End this process, as if the power went, at the numbered statement from here on.

    Counted are the statements of the files whose names hold one of `parts`.
    """
    count = 0

    def trace(frame, kind, argument):
        nonlocal count
        code = frame.f_code
        if code.co_name != FORKING and not any(part in code.co_filename for part in parts):
            return None
        if kind == "line":
            count += 1
            if count == number:
                os._exit(0)
        return trace

    sys.settrace(trace)


def in_worker(work) -> int:
    """Run `work` in a process of its own and return its exit code."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(STARTED)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def round_of(folder: Path, number: int) -> tuple[int, bool]:
    """Number of trainers that started, and whether the first worker got to its end."""
    provider = make_provider(folder, "--steps", "1")
    spec = make_spec(f"job{number}")

    def first() -> None:
        die_at(number)
        provider.submit(spec)
        sys.settrace(None)

    def again() -> None:
        try:
            provider.submit(spec)
        except ProviderBusy:
            os._exit(1)

    got_through = in_worker(first) == STARTED
    deadline = time.monotonic() + 60
    while in_worker(again) != STARTED and time.monotonic() < deadline:
        time.sleep(0.01)
    while provider.poll(provider.find(spec.job_id)).phase is not Phase.ENDED:
        time.sleep(0.005)
    starts = (provider.jobs_dir / spec.job_id / "starts.txt").read_text().splitlines()
    return len(starts), got_through


def rounds(folder: Path, first: int) -> None:
    """Every `LANES`th statement from the first one, up to the end of the submission."""
    number = first
    is_over = False
    while not is_over:
        starts, is_over = round_of(folder, number)
        # One write, so that lines of several lanes do not mix.
        os.write(1, json.dumps({"statement": number, "starts": starts}).encode() + b"\n")
        number += LANES


def main() -> None:
    folder = Path(sys.argv[1])
    lanes = []
    for lane in range(LANES):
        child = os.fork()
        if child == 0:
            rounds(folder / str(lane), lane + 1)
            os._exit(0)
        lanes.append(child)
    codes = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in lanes]
    sys.exit(max(codes))


if __name__ == "__main__":
    main()
