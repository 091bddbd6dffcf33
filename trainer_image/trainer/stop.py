"""Knows whether the job should end, and who said so: the control plane, a file, or a signal."""

from __future__ import annotations

import signal
import threading
import time
from pathlib import Path
from types import FrameType

from .errors import JobFailed, Stopped

FILE_POLL_SECONDS = 0.2


class StopSignal:
    """Asked often by the work (`check`), set from other threads and from signal handlers."""

    def __init__(self, stop_file: Path, *, max_seconds: float) -> None:
        self._stop_file = stop_file
        self._deadline = time.monotonic() + max_seconds
        self._max_seconds = max_seconds
        self._asked = threading.Event()
        self._next_look = 0.0
        self.signal_number: int | None = None

    def listen_to_signals(self) -> None:
        """Turn SIGTERM and Ctrl-C into a stop at the next step."""
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self.signal_number = number

    def ask(self) -> None:
        """The control plane wants the job to end."""
        self._asked.set()

    @property
    def is_asked(self) -> bool:
        """Somebody asked for the end: by the answer to a report, or by the stop file."""
        now = time.monotonic()
        if not self._asked.is_set() and now >= self._next_look:
            self._next_look = now + FILE_POLL_SECONDS
            if self._stop_file.exists():
                self._asked.set()
        return self._asked.is_set()

    @property
    def is_set(self) -> bool:
        """The job should end, for whatever cause."""
        return self.is_asked or self.signal_number is not None

    def check(self) -> None:
        """Raise Stopped if the job should end, JobFailed if its time is over."""
        if self.is_set:
            raise Stopped
        if time.monotonic() > self._deadline:
            raise JobFailed(
                "run_timeout",
                f"The run reached its limit of {self._max_seconds:g} seconds: "
                "raise max_seconds or lower num_train_steps.",
            )
