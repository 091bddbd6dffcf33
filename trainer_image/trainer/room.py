"""Waits for room on a full disk: at its end a run has too much to lose."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from .errors import first_line, is_disk_full

if TYPE_CHECKING:
    from .reporter import Reporter
    from .stop import StopSignal

PATIENCE_SECONDS = 120.0  # a rented machine costs while it waits
PAUSE_SECONDS = 1.0

Written = TypeVar("Written")


def write_when_there_is_room(
    write: Callable[[], Written],
    what: str,
    *,
    reporter: Reporter,
    stop: StopSignal,
    pause: float = PAUSE_SECONDS,
) -> Written:
    """Call `write` until the disk takes it, for two minutes; says once that it waits.

    `write` must be safe to repeat. Raises what it raised last, and Stopped.
    """
    deadline = time.monotonic() + PATIENCE_SECONDS
    has_said = False
    while True:
        try:
            return write()
        except Exception as error:
            if not is_disk_full(error) or time.monotonic() > deadline:
                raise
            if not has_said:
                has_said = True
                message = (
                    f"{what} cannot be written ({first_line(error)}). "
                    f"It is tried again for {PATIENCE_SECONDS:g} seconds: free some space."
                )
                reporter.report("warning", code="disk_full", message=message)
        stop.check()
        time.sleep(pause)
