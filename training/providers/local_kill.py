"""Ends a local run by force, and never a process that only has a number of it."""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Callable, Iterator
from typing import Any

from training.providers.local_wrapper import is_living

WRAPPER_GRACE = 5  # seconds for a wrapper to keep the exit code after its trainer was killed

# Asks for a process as it is recorded now: the trainer's record may come later than ours.
Found = Callable[[], dict[str, Any] | None]


def end_by_force(find_wrapper: Found, find_trainer: Found) -> None:
    """Kill the trainer, let the wrapper keep its exit code, then make sure of the wrapper."""
    deadline = time.monotonic() + WRAPPER_GRACE
    while is_living(wrapper := find_wrapper()) and time.monotonic() < deadline:
        _kill(find_trainer())
        time.sleep(0.02)
    _kill(wrapper)
    _kill(find_trainer())


def _kill(process: dict[str, Any] | None) -> None:
    """SIGKILL for exactly this process; nothing if it does not live."""
    if process is None:
        return
    with contextlib.suppress(ProcessLookupError):
        if hasattr(os, "pidfd_open"):
            # The descriptor stands for one process, also when its number is used again.
            with _closing(os.pidfd_open(process["pid"])) as handle:
                if is_living(process):
                    signal.pidfd_send_signal(handle, signal.SIGKILL)
        elif is_living(process):
            os.kill(process["pid"], signal.SIGKILL)


@contextlib.contextmanager
def _closing(descriptor: int) -> Iterator[int]:
    try:
        yield descriptor
    finally:
        os.close(descriptor)
