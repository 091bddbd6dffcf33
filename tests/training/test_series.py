"""Values by step, whatever a trainer reported as one."""

import pytest

from tests.factories import make_job
from training.contract import parse_report
from training.events import append_events
from training.series import job_series

pytestmark = pytest.mark.django_db


def series(values, points):
    job = make_job()
    reports = [
        parse_report({"type": "progress", "seq": step, "step": step, "grad_norm": value})
        for step, value in enumerate(values)
    ]
    append_events(job.pk, reports, db="default")
    return job_series(job, db="default", points=points)["series"]["grad_norm"]


def test_what_is_no_number_is_a_gap():
    assert series([1.5, "x", [1], {"a": 1}, True, 10**30, 2], 100) == [
        [0, 1.5], [1, None], [2, None], [3, None], [4, None], [5, None], [6, 2],
    ]  # fmt: skip


@pytest.mark.parametrize("odd", ["x", [1], {"a": 1}])
def test_a_series_with_gaps_can_be_thinned(odd):
    kept = series([odd if step % 3 else float(step) for step in range(100)], 10)

    assert 0 < len(kept) <= 12
