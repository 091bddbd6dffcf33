"""Beat as a process: its ticks go on, whatever becomes of the wall clock or the disk."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.faults import faults
from tests.faults.installation import Installation
from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent


class Beat:
    """`celery beat` on the queue of files, under a clock that the test sets."""

    def __init__(self, folder):
        self.data = folder / "data"
        for name in ("queue", "control"):
            (self.data / "broker" / name).mkdir(parents=True)
        self.clock = folder / "clock"
        self.set_clock(0)
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "celery", "--quiet", "--app", "gligabao", "beat"],
            cwd=ROOT,
            env=Installation(folder).env
            | {
                "PYTHONPATH": f"{ROOT}:{faults.CLOCK}",
                "GLIGABAO_TEST_CLOCK": str(self.clock),
            },
        )

    def set_clock(self, seconds):
        faults.set_clock(self.clock, seconds)

    def num_ticks(self, *, ahead):
        """Ticks sent so far with the clock set ahead, or right."""
        files = (self.data / "broker" / "queue").glob("[0-9]*.msg")
        expiries = [json.loads(file.read_bytes())["headers"]["expires"] for file in files]
        return sum((expiry > "2040") == ahead for expiry in expiries)

    def wait_for_ticks(self, number, *, ahead=False):
        """So many more, sent from now on."""
        before = self.num_ticks(ahead=ahead)
        eventually(lambda: self.num_ticks(ahead=ahead) >= before + number)


@pytest.fixture
def beat(tmp_path):
    started = Beat(tmp_path)
    yield started
    started.process.terminate()
    assert started.process.wait(30) == 0


def test_ticks_go_on_when_the_clock_is_set_ahead_and_back(beat):
    beat.wait_for_ticks(1)
    beat.set_clock(20 * 366 * 86400)
    beat.wait_for_ticks(2, ahead=True)
    beat.set_clock(0)
    beat.wait_for_ticks(3)


def test_beat_keeps_no_file(beat):
    beat.wait_for_ticks(2)
    assert [path.name for path in beat.data.iterdir() if "beat" in path.name] == []
