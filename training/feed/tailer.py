"""Brings new events from the rows to the streams: one thread per process and database.

A tailer keeps where it is in each job. It looks when the doorbell rings, and every second
without a ring. What it hands over may be lost without harm to the stream of one job, which
sees the gap in `seq` and reads the rows itself.
"""

from __future__ import annotations

import logging
import threading
from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import NamedTuple

from django.db import DatabaseError, connections
from django.db.models import Q
from django.utils import timezone

from training.feed import doorbell
from training.feed.channels import all_channel, run_channel
from training.feed.listeners import listeners
from training.feed.messages import PAGE, message_of
from training.models import JobEvent, TrainingJob
from training.states import UNFINISHED

logger = logging.getLogger(__name__)

SWEEP_SECONDS = 1.0
# A job's `touched_at` comes from the clock of its writer, and is older than its commit.
WINDOW = timedelta(seconds=30)
# After each page of a burst, so that readers which keep up are not overrun by it.
BREATH_SECONDS = 0.02


class _Place(NamedTuple):
    """A job with events that the tailer has not handed over yet: `seq` up to, not with, `end`."""

    run_id: int
    job_id: str
    seq: int
    end: int


class Tailer:
    """Follows the events of one database."""

    def __init__(self, db: str) -> None:
        self.db = db
        self._next_seq: dict[int, int] = {}  # by run
        self._newest_run = 0
        self._looked_at = timezone.now()
        self._watched: dict[int, int] = defaultdict(int)  # streams by run
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"feed-{db}", daemon=True)

    def start(self) -> None:
        """Take today's end of every job as the place to go on from, then follow."""
        rows = TrainingJob.objects.using(self.db)
        known = rows.filter(Q(status__in=UNFINISHED) | Q(touched_at__gte=self._looked_at - WINDOW))
        self._next_seq = dict(known.values_list("pk", "next_seq"))
        self._newest_run = rows.order_by("-pk").values_list("pk", flat=True).first() or 0
        self._thread.start()

    def stop(self) -> None:
        """Stop following, and wait for the thread to end."""
        self._stopped.set()
        self._thread.join()

    @property
    def is_alive(self) -> bool:
        return self._thread.is_alive()

    def watch(self, run_id: int, next_seq: int) -> None:
        """A stream of this job begins at or before `next_seq`: look at it at every sweep.

        A watched job is found whatever the clock of its writer says.
        """
        with self._lock:
            self._watched[run_id] += 1
            if run_id <= self._newest_run:  # a newer one is still to be told from its start
                self._next_seq.setdefault(run_id, next_seq)

    def unwatch(self, run_id: int) -> None:
        with self._lock:
            self._watched[run_id] -= 1
            if not self._watched[run_id]:
                del self._watched[run_id]

    def _run(self) -> None:
        with doorbell.open_bell(self.db) as bell:
            while not self._stopped.is_set():
                try:
                    bell.wait(SWEEP_SECONDS)
                    self.sweep()
                except DatabaseError as error:
                    logger.warning("The feed cannot read %s: %s", self.db, error)
                    self._rest_after_error()
                except Exception:
                    # A thread that ended here would leave every stream silent.
                    logger.exception("The feed stumbled over %s.", self.db)
                    self._rest_after_error()
        connections[self.db].close()

    def _rest_after_error(self) -> None:
        connections[self.db].close()
        self._stopped.wait(SWEEP_SECONDS)

    def sweep(self) -> None:
        """Hand over every event that was stored since the last sweep."""
        now = timezone.now()
        # From the last sweep on, not from now: a laptop may have slept between the two. And
        # not from a last sweep in the future: its clock may have been set back.
        since = min(self._looked_at, now) - WINDOW
        behind = self._behind(since)
        while behind:
            behind = self._hand_over(behind)
        self._looked_at = now
        if connections[self.db].vendor == "postgresql":
            connections[self.db].close()  # back to the pool, which is small

    def _behind(self, since: datetime) -> list[_Place]:
        """The jobs that have events which were not handed over yet."""
        with self._lock:
            watched = list(self._watched)
        rows = TrainingJob.objects.using(self.db)
        touched = rows.filter(Q(touched_at__gte=since) | Q(pk__in=watched))
        places = []
        for run_id, job_id, end in touched.order_by("pk").values_list("pk", "job_id", "next_seq"):
            seq = self._next_seq.get(run_id)
            if seq is None:
                seq = self._place_of_unknown(run_id, end, since)
            if seq < end:
                places.append(_Place(run_id, job_id, seq, end))
        return places

    def _place_of_unknown(self, run_id: int, end: int, since: datetime) -> int:
        """Where to begin in a job met for the first time.

        A new job is told from its start. An old one that was over before this tailer began
        has got a late report: only what was stored lately is news.
        """
        if run_id > self._newest_run:
            self._newest_run = run_id
            return 0
        late = JobEvent.objects.using(self.db).filter(run_id=run_id, created_at__gte=since)
        seq = late.order_by("seq").values_list("seq", flat=True).first()
        return end if seq is None else seq

    def _hand_over(self, behind: Sequence[_Place]) -> list[_Place]:
        """Hand over one page of each job; returns those that have more."""
        rest = []
        handed = 0
        for place in behind:
            end = min(place.end, place.seq + PAGE)
            handed += end - place.seq
            if handed > PAGE:
                self._stopped.wait(BREATH_SECONDS)
                handed = end - place.seq
            self._tell(place, end)
            self._next_seq[place.run_id] = end
            if end < place.end:
                rest.append(place._replace(seq=end))
        if rest:
            self._stopped.wait(BREATH_SECONDS)
        return rest

    def _tell(self, place: _Place, end: int) -> None:
        channels = [
            channel
            for channel in (run_channel(self.db, place.run_id), all_channel(self.db))
            if listeners.has_reader(channel)
        ]
        if not channels:
            return  # a stream that begins now reads these rows itself
        events = JobEvent.objects.using(self.db).filter(
            run_id=place.run_id, seq__gte=place.seq, seq__lt=end
        )
        messages = [
            message_of(event, job_id=place.job_id, db=self.db) for event in events.order_by("seq")
        ]
        for channel in channels:
            listeners.add_to_queues(channel, messages)


_tailers: dict[str, Tailer] = {}
_tailers_lock = threading.Lock()


def tailer_of(db: str) -> Tailer:
    """The tailer of a database in this process; the first stream starts it."""
    with _tailers_lock:
        tailer = _tailers.get(db)
        if tailer is None or not tailer.is_alive:
            tailer = Tailer(db)
            tailer.start()
            _tailers[db] = tailer
        return tailer


def stop_tailers() -> None:
    """Stop all tailers of this process; the next stream starts new ones."""
    with _tailers_lock:
        for tailer in _tailers.values():
            tailer.stop()
        _tailers.clear()
