"""Celery's beat by the clock that nobody sets, without a file of its own.

Celery's schedulers reckon by the wall clock: set two hours back, they send nothing for two
hours. And they keep the last times in a file, which a full disk or a kill can spoil. Our entries
are ticks at an interval, so a beat that starts afresh has lost nothing.
"""

from __future__ import annotations

import time
from typing import Any

from celery.beat import Scheduler


class SteadyScheduler(Scheduler):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._due_at: dict[str, float] = {}  # monotonic seconds; an entry not yet sent is due
        super().__init__(*args, **kwargs)

    def setup_schedule(self) -> None:
        self.merge_inplace(self.app.conf.beat_schedule)

    def tick(self, *_: Any) -> float:
        """Send what is due; returns the seconds until the next entry is."""
        now = time.monotonic()
        for entry in self.schedule.values():
            if self._due_at.get(entry.name, now) <= now:
                self._due_at[entry.name] = now + entry.schedule.run_every.total_seconds()
                self.apply_entry(entry, producer=self.producer)
        return max(0.0, min(self._due_at.values()) - time.monotonic())
