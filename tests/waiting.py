"""Waiting for a real condition, with a deadline."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

Value = TypeVar("Value")


def eventually(ask: Callable[[], Value], *, seconds: float = 30, every: float = 0.02) -> Value:
    """The first true answer; fails when there is none in time."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := ask():
            return answer
        time.sleep(every)
    raise AssertionError(f"not within {seconds} seconds")
