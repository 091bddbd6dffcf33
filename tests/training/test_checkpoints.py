"""Checkpoints, listed from the events of a job."""

import pytest

from tests.factories import make_job
from training.checkpoints import job_checkpoints
from training.contract import parse_report
from training.events import append_events

pytestmark = pytest.mark.django_db


def checkpoint(step, **data):
    return {"type": "checkpoint", "step": step, "path": f"checkpoint-{step}", **data}


def progress(step, loss):
    return {"type": "progress", "step": step, "loss": loss}


def evaluated(step, loss):
    return {"type": "eval", "step": step, "eval_loss": loss}


def listed(*boots):
    job = make_job()
    for number, reports in enumerate(boots):
        parsed = [
            parse_report({"boot": f"b{number}", "seq": seq, **report})
            for seq, report in enumerate(reports)
        ]
        append_events(job.pk, parsed, db="default")
    return job_checkpoints(job, db="default")


def test_most_steps_first_with_the_losses_of_their_steps():
    rows = listed([
        progress(9, 2.0), evaluated(10, 1.9), checkpoint(10, size_bytes=7), progress(19, 1.0),
        checkpoint(20, size_bytes=8),
    ])  # fmt: skip

    assert [(row.step, row.loss, row.eval_loss, row.size_bytes) for row in rows] == [
        (20, 1.0, None, 8), (10, 2.0, 1.9, 7),
    ]  # fmt: skip
    assert rows[0].path == "checkpoint-20"


def test_best_is_the_lowest_eval_loss_and_the_earliest_of_equals():
    rows = listed([
        checkpoint(10, eval_loss=2.0), checkpoint(20, eval_loss=1.5), checkpoint(30, eval_loss=1.5),
        checkpoint(40, eval_loss=1.8),
    ])  # fmt: skip

    assert [row.step for row in rows if row.is_best] == [20]


def test_nothing_evaluated_is_no_best():
    assert not any(row.is_best for row in listed([checkpoint(10), checkpoint(20)]))


def test_step_saved_again_after_a_resume_is_there_once():
    rows = listed(
        [checkpoint(10, size_bytes=1), checkpoint(20, size_bytes=1)],
        [progress(15, 1.0), checkpoint(20, size_bytes=2)],
    )

    assert [(row.step, row.attempt, row.size_bytes) for row in rows] == [(20, 2, 2), (10, 1, 1)]


def test_job_without_checkpoints():
    assert listed([progress(1, 2.0)]) == []


@pytest.mark.parametrize("odd", [None, "x", True, [1], {"a": 1}])
def test_odd_fields_are_left_out(odd):
    (row,) = listed([{"type": "checkpoint", "path": odd}, checkpoint(5, path=odd, size_bytes=odd)])

    assert row.path == (odd if isinstance(odd, str) else "")
    assert (row.size_bytes, row.eval_loss) == (None, None)
