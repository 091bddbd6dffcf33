"""Takes the guards of our promises away, one at a time, and sees that a test notices.

    python -m tests.faults.guards

Each guard is taken from a copy of the project; then the tests that ought to notice run there.
Exit code 1 when they pass without the guard.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from tests.faults.installation import ROOT

FAILED = re.compile(r"^FAILED (\S+)", re.MULTILINE)
SOME_FAILED = 1  # pytest's exit code; what could not even be collected has another one


@dataclass(frozen=True)
class Guard:
    """A place in the code that holds a promise, and the tests that hold the place."""

    promise: str
    file: str
    text: str
    without: str
    tests: tuple[str, ...]


GUARDS = (
    Guard(
        "A job has one final event, whoever races",
        "training/migrations/0001_initial.py",
        "condition=models.Q(('is_final', True)), fields=('run',), name=",
        "condition=models.Q(('is_final', True)), fields=('run', 'seq'), name=",
        ("tests/training/test_events.py",),
    ),
    Guard(
        "A report is stored once, however often it comes",
        "training/events.py",
        "            if key in seen:\n                continue\n",
        "",
        ("tests/training/test_events.py",),
    ),
    Guard(
        "The place in the log is saved with its events or not at all",
        "training/events.py",
        "        _save(job, cursor, db, touched=bool(events))\n",
        "        _save(job, None, db, touched=bool(events))\n",
        ("tests/training/runner/test_follow.py",),
    ),
    Guard(
        "One worker follows a job at a time",
        "training/models/job.py",
        "    return Q(lease_until=None) | Q(lease_until__lt=now) | far\n",
        "    return Q(lease_until=None) | Q(lease_until__isnull=False) | far\n",
        ("tests/training/runner/test_lease.py", "tests/training/runner/test_follow.py"),
    ),
    Guard(
        "Of two runs of a job, the second does nothing",
        "training/providers/local_wrapper.py",
        "        os.link(draft, path)\n",
        "        draft.rename(path)\n        draft.touch()\n",
        (
            "tests/training/providers/test_local_wrapper.py",
            "tests/training/providers/test_local_submission.py",
        ),
    ),
    Guard(
        "A claimed model is read byte by byte before the end is written",
        "training/runner/finish.py",
        "        verified = verify.verify_claim(job, claim, provider)\n",
        "        verified = verify.Verified(claim['files'], 0, 0, timezone.now())\n",
        ("tests/training/runner/test_finish.py", "tests/training/runner/test_verify.py"),
    ),
    Guard(
        "The first outcome stays",
        "training/projections.py",
        "    if state.outcome:\n        return state\n",
        "",
        ("tests/training/test_events.py", "tests/training/runner/test_finish.py"),
    ),
    Guard(
        "A stop ends a trainer that does not listen",
        "training/runner/finish.py",
        "    force = (asked and",
        "    force = (False and",
        ("tests/training/runner/test_finish.py", "tests/training/runner/test_follow.py"),
    ),
    Guard(
        "A clock that was put back stops no beat",
        "gligabao/settings.py",
        """CELERY_BEAT_SCHEDULER = "gligabao.beat:SteadyScheduler"\n""",
        """CELERY_BEAT_SCHEDULE_FILENAME = str(DATA_DIR / "schedule")\n""",
        ("tests/test_beat.py",),
    ),
)


def copy_project(target: Path) -> None:
    """The files of the project, with our environment beside them."""
    ignored = shutil.ignore_patterns(".git", ".venv", "data", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, target, ignore=ignored)
    (target / ".venv").symlink_to(ROOT / ".venv")


def take_away(guard: Guard, project: Path) -> None:
    path = project / guard.file
    content = path.read_text()
    if content.count(guard.text) != 1:
        raise LookupError(f"{guard.file} has {guard.text!r} {content.count(guard.text)} times.")
    path.write_text(content.replace(guard.text, guard.without))


def noticed_by(guard: Guard, project: Path) -> list[str]:
    """The tests that fail without the guard."""
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "--tb=no", "-p", "no:cacheprovider", *guard.tests],
        cwd=project, env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode not in (0, SOME_FAILED):
        raise RuntimeError(f"pytest ended with {done.returncode}:\n{done.stdout[-2000:]}")
    return FAILED.findall(done.stdout)


def main() -> int:
    table = Table("without", "noticed by", "tests")
    unnoticed = []
    for guard in GUARDS:
        with tempfile.TemporaryDirectory(prefix="gligabao-guards-") as folder:
            project = Path(folder) / "project"
            copy_project(project)
            take_away(guard, project)
            failed = noticed_by(guard, project)
        print(f"{guard.promise}: {len(failed)} tests notice", flush=True)
        table.add_row(guard.promise, failed[0] if failed else "NOBODY", str(len(failed)))
        if not failed:
            unnoticed.append(guard.promise)
    Console(width=120).print(table)
    for promise in unnoticed:
        print(f"NOT NOTICED: {promise}")
    return 1 if unnoticed else 0


if __name__ == "__main__":
    sys.exit(main())
