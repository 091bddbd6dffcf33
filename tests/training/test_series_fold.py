"""Series that are kept small, the same in whatever order and batches reports come."""

import json
import random

import pytest

from training.series_fold import BUCKETS, fold_report, series_of


def report(step, attempt=1, position=None, **data):
    return {
        "attempt": attempt,
        "position": step if position is None else position,
        "data": {"step": step, **data},
    }


def folded(reports):
    state = {}
    for index, one in enumerate(reports):
        if index % 700 == 0:
            state = json.loads(json.dumps(state))  # as the database gives it back
        fold_report(state, **one)
    return series_of(state)


@pytest.mark.parametrize(
    ("step", "width"),
    [(1, 1), (999, 1), (1000, 2), (1999, 2), (2000, 4), (100_000, 128), (2**53, 2**44)],
)
def test_buckets_are_a_thousand_at_most(step, width):
    state = {}
    fold_report(state, **report(1, loss=1.0))
    fold_report(state, **report(step, loss=1.0))

    assert state["1"]["width"] == width
    assert max(map(int, state["1"]["series"]["loss"])) < BUCKETS


def test_long_job_begins_with_every_value_and_always_has_the_last():
    reports = [report(step, loss=3.0 - step % 5) for step in range(1, 1501)]

    assert len(folded(reports[:999])["loss"]) == 999
    for end in (1000, 1001, 1234, 1500):
        assert folded(reports[:end])["loss"][-1] == (end, 3.0 - end % 5)


def test_short_job_keeps_every_value():
    reports = [report(step, loss=step / 3) for step in range(1, 101)]

    assert folded(reports)["loss"] == [(step, step / 3) for step in range(1, 101)]


def test_long_job_keeps_the_extremes_of_each_stretch():
    reports = [report(step, loss=float(step % 10)) for step in range(1, 20_001)]
    reports[5432]["data"]["loss"] = 99.0
    reports[77]["data"]["loss"] = -5.0
    reports[300]["data"]["loss"] = None

    loss = folded(reports)["loss"]

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
    expected = folded(reports)

    draw.shuffle(reports)

    assert folded(reports) == expected


def test_what_is_no_step_is_left_out():
    assert folded([{"attempt": 1, "position": 1, "data": {"loss": 1.0}}]) == {}
