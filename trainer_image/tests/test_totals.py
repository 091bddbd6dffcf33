"""What is counted of a run, when it must end, and when it is worth a warning."""

import json
import math
import re
from dataclasses import asdict

import pytest
import torch

from trainer.totals import RunningTotals, Totals

NAN, INF = math.nan, math.inf


def count(losses, *, norms=(), start=None, read_every=1):
    """Totals after steps of two batches each, read every so many steps."""
    totals = RunningTotals(start or Totals())
    for index, loss in enumerate(losses):
        for share in (0.25, 0.75):
            totals.add(torch.tensor(loss * share, dtype=torch.float64), num_tokens=5)
        totals.end_step(torch.tensor(dict(enumerate(norms)).get(index, 1.0)))
        if (index + 1) % read_every == 0:
            totals.read()
    return totals


def test_mean_and_last_loss_are_told_apart():
    totals = count([4.0, 2.0, 1.0, 0.5])

    assert totals.now.mean_loss == 1.875
    assert totals.close_window() == 1.875
    totals.add(torch.tensor(0.25), num_tokens=5)
    totals.end_step(torch.tensor(1.0))
    assert totals.close_window() == 0.25
    assert totals.close_window() is None
    assert totals.now.tokens == 45
    assert totals.now.step == 5


def test_a_resumed_run_counts_on_within_a_window():
    whole = count([5.0, 4.0, 3.0, 2.0, 1.0, 0.5, 0.25])
    first = count([5.0, 4.0, 3.0])
    saved = Totals.from_json(json.loads(json.dumps(asdict(first.read()))))

    resumed = count([2.0, 1.0, 0.5, 0.25], start=saved)

    assert resumed.read() == whole.read()
    assert resumed.close_window() == whole.close_window()


@pytest.mark.parametrize("read_every", [1, 4, 7], ids=lambda n: f"read-every-{n}")
@pytest.mark.parametrize(
    ("losses", "norms", "message"),
    [
        ([2.0, NAN, NAN, 1.0, 1.0, 1.0, 1.0], {}, "loss was not a finite number .* steps 2 and 3"),
        ([2.0, 1.0, INF, NAN, 1.0, 1.0, 1.0], {}, "loss was not a finite number .* steps 3 and 4"),
        ([2.0, 0.0, 0.0, 1.0, 1.0, 1.0, 1.0], {}, "loss was exactly zero .* steps 2 and 3"),
        ([2.0] * 7, {4: INF, 5: NAN}, "gradient was not a finite number .* steps 5 and 6"),
    ],
    ids=["nan", "inf", "zero", "gradient"],
)
def test_two_bad_steps_in_a_row_end_a_run_however_seldom_it_is_looked_at(
    losses, norms, message, read_every
):
    norms = [norms.get(index, 1.0) for index in range(7)]

    totals = count(losses, norms=norms, read_every=read_every)

    totals.read()
    assert re.search(message, totals.divergence)
    assert not totals.is_sound


@pytest.mark.parametrize("losses", [[2.0, 0.0, 1.0, 0.0, 1.0], [2.0, 1.0, 0.0, 1.0]])
def test_a_single_bad_step_is_not_the_end(losses):
    totals = count(losses)

    assert totals.divergence == ""
    assert totals.is_sound


def test_right_after_a_bad_step_nothing_is_sound():
    assert not count([2.0, 0.0]).is_sound
    assert not count([2.0, NAN]).is_sound
    assert not count([2.0, 1.0], norms=[1.0, NAN]).is_sound


@pytest.mark.parametrize(
    "losses",
    [
        [2.0] * 10,
        [1.0, 1.1, 1.2],
        [2.0, 2.0],
        [3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 3.0],
    ],
)
def test_a_loss_that_did_not_fall_is_worth_a_warning_at_the_end(losses):
    totals = count(losses)

    assert totals.warning() == ""
    assert "The loss did not fall" in totals.warning(is_over=True)
    assert totals.warning(is_over=True) == ""


@pytest.mark.parametrize("losses", [[], [2.0], [2.0, 1.9], [2.0, 9.0, 1.0, 1.0], [0.02, 0.01]])
def test_a_loss_that_fell_or_had_no_time_to_is_not(losses):
    assert count(losses).warning(is_over=True) == ""


def test_a_loss_that_grows_far_above_its_start_is_said_at_once_and_once():
    start = [2.0] * 5

    assert count([*start, 3.9, 3.9, 3.9, 3.9, 3.9]).warning() == ""
    assert count([0.01] * 5 + [0.2] * 5).warning() == ""
    totals = count([*start, 4.5, 4.5, 4.5, 4.5, 4.5])
    assert totals.warning().startswith("The loss rises: 4.5 around step 10, 2 at the start.")
    assert totals.warning() == ""
    resumed = RunningTotals(totals.read())
    assert resumed.warning(is_over=True) == ""
