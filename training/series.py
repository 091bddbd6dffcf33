"""A job's series for charts, read from its events and kept, so that no page reads 100,000."""

from __future__ import annotations

from typing import Any

from gligabao.databases import write_transaction
from training.models import JobEvent, JobSeries, TrainingJob
from training.series_fold import Series, fold_report, series_of, thin

MAX_POINTS = 10_000
KEEP_AFTER = 500  # events; fewer are folded in memory each time


def job_series(job: TrainingJob, *, db: str, points: int) -> dict[str, Any]:
    """`{"series": {name: [[step, value], ...]}, "last_seq"}`, thinned to `points`."""
    series = read_series(job, db=db)
    return {
        "series": {name: thin(values, points) for name, values in series.items()},
        "last_seq": job.next_seq - 1,
    }


def read_series(job: TrainingJob, *, db: str) -> Series:
    """(step, value) of every series by its name, steps rising; up to `job.next_seq`.

    All values of an attempt of fewer than 1,000 steps; of a longer one the lowest and the highest
    of each of 500 to 1,000 stretches, and the last. A value that was no number is None: a gap.
    """
    kept = JobSeries.objects.using(db).filter(run=job).first() or JobSeries(run=job)
    start = kept.next_seq
    rows = (
        JobEvent.objects.using(db)
        .filter(run=job, type__in=("progress", "eval"), seq__gte=start, seq__lt=job.next_seq)
        .order_by("seq")
        .values_list("attempt", "position", "data")
    )
    for attempt, position, data in rows.iterator(chunk_size=2000):
        fold_report(kept.data, attempt=attempt, position=position, data=data)
    if job.next_seq - start > KEEP_AFTER:
        kept.next_seq = job.next_seq
        _keep(kept, start, db)
    return series_of(kept.data)


def keep_series(job: TrainingJob, *, db: str) -> None:
    """Bring what is kept up to date if it is far behind; for a worker, so that no page has to."""
    known = JobSeries.objects.using(db).filter(run=job).values_list("next_seq", flat=True).first()
    if job.next_seq - (known or 0) > KEEP_AFTER:
        read_series(job, db=db)


def _keep(news: JobSeries, start: int, db: str) -> None:
    """Save it if nobody has in between. Who comes second did the same work and loses nothing."""
    with write_transaction(db):
        rows = JobSeries.objects.using(db)
        if start:
            rows.filter(run=news.run_id, next_seq=start).update(
                next_seq=news.next_seq, data=news.data
            )
        else:
            rows.bulk_create([news], ignore_conflicts=True)
