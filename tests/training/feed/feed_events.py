"""Events to write, and what streams of them should hold."""

from __future__ import annotations

from training.contract import parse_report
from training.events import append_events


def append_progress(job, seqs, db="default", **data):
    """Store progress reports with these numbers, in one batch."""
    reports = [
        parse_report({"type": "progress", "boot": "b", "seq": n, "step": n, "loss": 1.5, **data})
        for n in seqs
    ]
    append_events(job.pk, reports, db=db)


def seqs_of(events):
    return [int(event.id) for event in events]
