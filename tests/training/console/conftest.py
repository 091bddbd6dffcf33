"""What the tests of these pages share."""

import pytest

from training.contract import parse_report
from training.events import append_events


@pytest.fixture
def report():
    """Stores a report of a job's trainer: report(job, 0, type="progress", step=1)."""

    def store(job, seq, db="default", **fields):
        append_events(job.pk, [parse_report({"boot": "b", "seq": seq, **fields})], db=db)

    return store
