"""Series that are kept small, the same in whatever order and batches reports come."""

import json
import random

import pytest

from training.series_fold import fold_report, series_of, width_of


def report(step, attempt=1, position=None, **data):
    return {
        "attempt": attempt,
        "position": step if position is None else position,
        "data": {"step": step, **data},
    }


def folded(reports, num_train_steps=100):
    state = {}
    for index, one in enumerate(reports):
        if index % 700 == 0:
            state = json.loads(json.dumps(state))  # as the database gives it back
        fold_report(state, **one, width=width_of(num_train_steps))
    return series_of(state)


@pytest.mark.parametrize(
    ("steps", "width"), [(1, 1), (1000, 1), (1001, 2), (100_000, 100), (1_000_000, 1000)]
)
def test_buckets_are_a_thousand_at_most(steps, width):
    assert width_of(steps) == width


def test_short_job_keeps_every_value():
    reports = [report(step, loss=step / 3) for step in range(1, 101)]

    assert folded(reports)["loss"] == [(step, step / 3) for step in range(1, 101)]


def test_long_job_keeps_the_extremes_of_each_stretch():
    reports = [report(step, loss=float(step % 10)) for step in range(1, 20_001)]
    reports[5432]["data"]["loss"] = 99.0
    reports[77]["data"]["loss"] = -5.0
    reports[300]["data"]["loss"] = None

    loss = folded(reports, num_train_steps=20_000)["loss"]

    assert len(loss) <= 2003
    assert {(5433, 99.0), (78, -5.0), (301, None)} <= set(loss)
    assert loss == sorted(loss)


def test_later_report_of_a_step_counts():
    reports = [report(5, position=9, loss=2.0), report(5, position=3, loss=1.0)]

    assert folded(reports)["loss"] == [(5, 2.0)]


def test_what_a_resume_took_back_is_left_out():
    first = [report(step, loss=3.0) for step in range(1, 81)]
    second = [report(step, attempt=2, loss=2.0) for step in range(51, 61)]

    loss = folded([*first, *second])["loss"]

    assert loss == [(step, 3.0) for step in range(1, 51)] + [(step, 2.0) for step in range(51, 61)]


def test_time_goes_on_over_attempts():
    first = [report(step, elapsed_seconds=2.0 * step) for step in range(1, 81)]
    second = [report(step, attempt=2, elapsed_seconds=3.0 * (step - 50)) for step in range(51, 54)]

    seconds = folded([*first, *second])["elapsed_seconds"]

    assert seconds[-4:] == [(50, 100.0), (51, 103.0), (52, 106.0), (53, 109.0)]


@pytest.mark.parametrize("num_train_steps", [60, 5000])
@pytest.mark.parametrize("seed", range(20))
def test_order_of_arrival_changes_nothing(num_train_steps, seed):
    draw = random.Random(seed)
    reports = []
    for attempt in (1, 2, 3):
        start = draw.randrange(1, num_train_steps)
        for position, step in enumerate(range(start, num_train_steps + 1, draw.choice((1, 7)))):
            value = draw.choice((draw.random(), draw.random(), None, "x", 7))
            reports.append(report(step, attempt, position, loss=value, elapsed_seconds=position))
    expected = folded(reports, num_train_steps)

    draw.shuffle(reports)

    assert folded(reports, num_train_steps) == expected


def test_what_is_no_step_is_left_out():
    assert folded([{"attempt": 1, "position": 1, "data": {"loss": 1.0}}]) == {}
