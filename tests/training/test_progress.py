"""Time left and share done, read from a job's last events."""

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from training.progress import percent_done, time_left

CASES = Path(__file__).parent.parent / "cases"


@dataclass
class Event:
    type: str
    data: dict = field(default_factory=dict)
    attempt: int = 1


def progress(step, elapsed, attempt=1):
    return Event("progress", {"step": step, "elapsed_seconds": elapsed}, attempt)


def p06_events():
    steps = json.loads((CASES / "P06.json").read_text())["steps"]
    return [Event(step["body"]["type"], step["body"]) for step in steps]


def seconds(events, num_train_steps):
    left = time_left(events, num_train_steps)
    return left and left.seconds


@pytest.mark.parametrize(
    ("seq", "expected"), [(0, None), (1, None), (2, None), (3, 80), (6, None), (7, 50), (8, 0)]
)
def test_p06_only_this_stretch_counts(seq, expected):
    assert seconds(p06_events()[: seq + 1], 100) == expected


def test_earlier_attempts_do_not_count():
    events = [progress(10, 10.0), progress(20, 11.0), progress(10, 5.0, attempt=2)]

    assert seconds(events, 100) is None
    assert seconds([*events, progress(20, 25.0, attempt=2)], 100) == 160


def test_late_report_of_an_earlier_attempt_is_left_out():
    events = [progress(10, 5.0, attempt=2), progress(50, 900.0), progress(20, 15.0, attempt=2)]

    assert seconds(events, 100) == 80


@pytest.mark.parametrize(
    "events",
    [
        [],
        [Event("progress", {"step": 1}), Event("progress", {"step": 2})],
        [progress(10, 5.0), progress(10, 6.0)],
        [progress(10, 5.0), progress(20, 5.0)],
        [progress(20, 5.0), progress(10, 6.0)],
    ],
    ids=["nothing", "no times", "no step", "no time between", "back a step"],
)
def test_unknown_speed_is_no_time(events):
    assert seconds(events, 100) is None


def test_range_comes_from_the_slowest_and_the_fastest_piece():
    elapsed = {10: 10.0, 20: 20.0, 30: 25.0, 40: 45.0, 50: 55.0}
    left = time_left([progress(step, at) for step, at in elapsed.items()], 100)

    assert (left.seconds, left.least, left.most) == (50 * 45 / 40, 50 * 0.5, 50 * 2.0)


@pytest.mark.parametrize(
    ("step", "total", "percent"), [(0, 100, 0), (108, 100, 100), (1, 3, 33), (5, 0, 0)]
)
def test_bar_stays_between_0_and_100(step, total, percent):
    assert percent_done(step, total) == percent
