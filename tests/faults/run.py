"""`make faults`: kills trainer, worker, beat and web while jobs run, and prints what was seen.

    python -m tests.faults.run [--steps 300]

Exit code 1 when an invariant broke: `seq` without gaps, one final event, feed equal to rows, no
live trainer of an ended job.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.installation import Installation, wait_until
from tests.faults.witnesses import Said, Witness, feed_witness, page_witness, row_witness

WITNESSES = (row_witness, feed_witness, page_witness)
FINAL = ("completed", "failed", "cancelled")
PATIENCE = 60  # seconds; the promise for `local` is 15


@dataclass
class Watched:
    """A job under three witnesses."""

    installation: Installation
    job: dict
    db: str
    witnesses: list[Witness]

    @classmethod
    def start(cls, installation: Installation, *, steps: int, db: str = "standard") -> Watched:
        job = installation.start_job(steps=steps, db=db)
        witnesses = [make(installation, job["id"], db) for make in WITNESSES]
        for witness in witnesses:
            witness.start()
        return cls(installation, job, db, witnesses)

    @property
    def row(self) -> Witness:
        return self.witnesses[0]

    @property
    def label(self) -> str:
        return f"job {self.job['id']} in {self.db}"

    def wait_for_step(self, step: int) -> None:
        wait_until(lambda: self.row.said and self.row.said[-1].step >= step, 180, f"step {step}")

    def wait_for(self, wanted, since: float) -> list[Said]:
        """What each witness said first, of what is wanted, after a moment."""
        return [
            wait_until(
                lambda witness=witness: witness.first_after(since, wanted),
                PATIENCE,
                f"{witness.name} of {self.label}",
            )
            for witness in self.witnesses
        ]

    def close(self) -> None:
        for witness in self.witnesses:
            witness.done.set()


class Report:
    def __init__(self) -> None:
        self.table = Table("fault", "seen of", "row", "feed", "page", "said")
        self.broken: list[str] = []

    def add(self, fault: str, watched: Watched, since: float, said: list[Said]) -> None:
        times = [f"{item.at - since:.1f} s" for item in said]
        words = ", ".join(sorted({f"{item.status} at step {item.step}" for item in said}))
        self.table.add_row(fault, watched.label, *times, words)

    def check(self, claim: str, holds: bool) -> None:
        if not holds:
            self.broken.append(claim)


def kill_children(installation: Installation, watched: Watched, report: Report) -> None:
    """Kill beat, worker and web in turn; each time the job must be seen to go on."""
    for child in ("beat", "worker", "web"):
        step = watched.row.said[-1].step
        moment = installation.kill(installation.pid_of(child))
        said = watched.wait_for(lambda item, step=step: item.step > step + 2, moment)
        report.add(f"kill -9 {child}", watched, moment, said)


def kill_trainer(watched: Watched, report: Report, *, first: tuple[str, ...] = ()) -> None:
    """Kill the trainer, and right before it what would notice (`first`)."""
    installation = watched.installation
    for child in first:
        installation.kill(installation.pid_of(child))
    moment = installation.kill(installation.trainer_pid(watched.job["job_id"]))
    said = watched.wait_for(_is_over, moment)
    report.add(f"kill -9 {' '.join([*first, 'trainer'])}", watched, moment, said)
    report.check(
        f"{watched.label}: failed, 137",
        {item.status for item in said} == {"failed"} and "137" in row_of(watched)["error"],
    )


def wait_for_end(watched: Watched, report: Report, expected: str) -> None:
    moment = time.monotonic()
    row = watched.row
    wait_until(lambda: row.first_after(0, _is_over), 300, f"the end of {watched.label}")
    said = watched.wait_for(_is_over, 0)
    report.add("(none)", watched, moment, said)
    report.check(f"{watched.label}: {expected}", {item.status for item in said} == {expected})


def _is_over(item: Said) -> bool:
    return item.status in FINAL


def row_of(watched: Watched) -> dict:
    with watched.installation.api() as api:
        path = f"/v1/gb/training/jobs/{watched.job['id']}"
        return api.get(path, params={"db": watched.db}).json()


def check_invariants(watched: Watched, report: Report) -> None:
    """What must hold after every walk, read through the API."""
    events, start = [], 0
    with watched.installation.api() as api:
        while start is not None:
            page = api.get(
                f"/v1/gb/training/jobs/{watched.job['id']}/events",
                params={"db": watched.db, "from": start, "limit": 500},
            ).json()
            events += page["events"]
            start = page["next"]
    seqs = [event["seq"] for event in events]
    finals = [
        event for event in events
        if event["type"] == "status" and event["data"]["status"] in FINAL
    ]  # fmt: skip
    feed = watched.witnesses[1]
    wait_until(lambda: len(feed.seqs) >= len(seqs), 20, "the feed has every row")
    report.check(f"{watched.label}: seq has no gaps", seqs == list(range(len(seqs))))
    report.check(f"{watched.label}: one final event", len(finals) == 1)
    report.check(f"{watched.label}: feed equals rows", feed.seqs == seqs)
    try:
        os.kill(watched.installation.trainer_pid(watched.job["job_id"]), 0)
        is_alive = True
    except (ProcessLookupError, FileNotFoundError):
        is_alive = False
    report.check(f"{watched.label}: no live trainer after the end", not is_alive)


def one_job(folder: Path, steps: int, report: Report) -> None:
    """One job: everything around it is killed, then its trainer; its retry goes on to the end."""
    installation = Installation(folder)
    installation.start()
    try:
        watched = Watched.start(installation, steps=steps)
        watched.wait_for_step(10)
        kill_children(installation, watched, report)
        watched.wait_for_step(60)  # past the first checkpoint
        kill_trainer(watched, report)
        check_invariants(watched, report)
        watched.close()
        resume(installation, watched, report)
    finally:
        installation.stop()


def resume(installation: Installation, ended: Watched, report: Report) -> None:
    with installation.api() as api:
        path = f"/v1/gb/training/jobs/{ended.job['id']}/retry"
        job = api.post(path, json={"resume": True}).json()
    witnesses = [make(installation, job["id"], "standard") for make in WITNESSES]
    for witness in witnesses:
        witness.start()
    watched = Watched(installation, job, "standard", witnesses)
    wait_for_end(watched, report, "completed")
    check_invariants(watched, report)
    first_step = next(item.step for item in watched.row.said if item.step)
    report.check(f"{watched.label}: resumed past step 1, at {first_step}", first_step > 1)
    watched.close()


def two_databases(folder: Path, steps: int, report: Report) -> None:
    """Job 1 in `standard` and job 1 in `second` at once; the trainer of the second is killed."""
    env = {
        "GLIGABAO_DATABASES": f"second=sqlite:///{folder}/second.sqlite3",
        "GLIGABAO_LOCAL_SLOTS": "2",
    }
    folder.mkdir(parents=True, exist_ok=True)
    installation = Installation(folder, extra_env=env)
    installation.start()
    try:
        first = Watched.start(installation, steps=steps)
        second = Watched.start(installation, steps=steps, db="second")
        report.check("both are job 1", first.job["id"] == second.job["id"] == 1)
        second.wait_for_step(10)
        kill_children(installation, first, report)
        kill_trainer(second, report, first=("web", "worker", "beat"))
        wait_for_end(first, report, "completed")
        for watched in (first, second):
            check_invariants(watched, report)
            watched.close()
    finally:
        installation.stop()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=300, help="steps of each job")
    steps = parser.parse_args().steps
    report = Report()
    with tempfile.TemporaryDirectory(prefix="gligabao-faults-") as folder:
        one_job(Path(folder) / "one", steps, report)
        two_databases(Path(folder) / "two", steps, report)
    Console(width=120).print(report.table)
    for claim in report.broken:
        print(f"BROKEN: {claim}")
    print("all invariants hold" if not report.broken else f"{len(report.broken)} broken")
    return 1 if report.broken else 0


if __name__ == "__main__":
    sys.exit(main())
