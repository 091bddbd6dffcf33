"""Keeps a few child processes alive: starts them, starts them again, and ends them all.

Knows nothing of Django or of what the children do.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

CHECK_SECONDS = 0.2
STEADY_SECONDS = 10  # a child that lived this long has started well
FIRST_PAUSE = 0.25  # before a child is started again; doubled while it dies at once
LONGEST_PAUSE = 30.0
END_SECONDS = 4  # for a child to end by itself, then it is killed
STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
PR_SET_PDEATHSIG = 1  # linux/prctl.h
# Loaded here: between fork and exec as little as possible should happen.
LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclass
class Child:
    """One process to keep alive. Its standard output is ours."""

    name: str
    command: Sequence[str]
    pass_fds: Sequence[int] = ()
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    pause: float = FIRST_PAUSE
    due: float = 0.0  # when it is to be started, by the monotonic clock


@dataclass
class Supervisor:
    """Runs the children until it is told to stop.

    Each child has a session of its own, so that a Ctrl-C in the terminal reaches only us, and
    `NAME.pid` in `run_dir` while it lives. On Linux the children end with us, even by kill -9.
    """

    children: Sequence[Child]
    environment: Mapping[str, str]
    run_dir: Path
    say: Callable[[str], None]
    num_stop_signals: int = field(default=0, init=False)
    wake: threading.Event = field(default_factory=threading.Event, init=False)

    def run(self, *, on_stop: Callable[[], None]) -> None:
        """Return when a stop signal came and every child is over.

        `on_stop` is called while they are ending.
        """
        with self._stop_signals():
            try:
                try:
                    self._keep_all_alive()
                finally:
                    for child in self.children:
                        _signal(child, signal.SIGTERM)
                on_stop()
            finally:
                self._await_ends()

    @contextlib.contextmanager
    def _stop_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self._count_signal) for number in STOP_SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _count_signal(self, *_: object) -> None:
        self.num_stop_signals += 1
        self.wake.set()

    def _keep_all_alive(self) -> None:
        while not self.num_stop_signals:
            for child in self.children:
                self._keep_alive(child)
            self.wake.wait(CHECK_SECONDS)

    def _keep_alive(self, child: Child) -> None:
        if child.process is not None:
            code = child.process.poll()
            if code is None:
                return
            self._plan_restart(child, code)
        if child.process is None and time.monotonic() >= child.due:
            self._start_or_wait(child)

    def _start_or_wait(self, child: Child) -> None:
        """A full disk or process table later on must not end the children that run."""
        try:
            self._start(child)
        except OSError as error:
            if not child.started:  # it never ran: most likely it never can
                raise
            self.say(f"{child.name} was not started as it should be: {error}")
            child.due = time.monotonic() + child.pause
            child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def _plan_restart(self, child: Child, code: int) -> None:
        now = time.monotonic()
        if now - child.started >= STEADY_SECONDS:
            child.pause = FIRST_PAUSE
        child.process = None
        child.due = now + child.pause
        self._pid_file(child).unlink(missing_ok=True)
        when = f" in {child.pause:.0f} s" if child.pause >= 1 else ""
        self.say(f"{child.name} ended ({_how(code)}); starting it again{when}.")
        child.pause = min(child.pause * 2, LONGEST_PAUSE)

    def _start(self, child: Child) -> None:
        child.process = subprocess.Popen(
            child.command,
            env=self.environment,
            stdin=subprocess.DEVNULL,
            pass_fds=child.pass_fds,
            start_new_session=True,
            preexec_fn=end_with_parent,
        )
        child.started = time.monotonic()
        draft = self._pid_file(child).with_suffix(".draft")
        draft.write_text(f"{child.process.pid}\n", encoding="ascii")
        draft.replace(self._pid_file(child))  # whoever reads it never meets half a number

    def _pid_file(self, child: Child) -> Path:
        return self.run_dir / f"{child.name}.pid"

    def _await_ends(self) -> None:
        """Wait for the children; kill those that are late. A second signal kills at once."""
        deadline = time.monotonic() + END_SECONDS
        for child in self.children:
            while _lives(child) and self.num_stop_signals < 2 and time.monotonic() < deadline:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    child.process.wait(0.05)
            _signal(child, signal.SIGKILL)
            if child.process is not None:
                child.process.wait()
            self._pid_file(child).unlink(missing_ok=True)


def end_with_parent() -> None:
    """Called in a child between fork and exec: ask Linux to end it when its parent ends."""
    if LIBC is not None:
        LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGTERM)


def _lives(child: Child) -> bool:
    return child.process is not None and child.process.poll() is None


def _signal(child: Child, number: signal.Signals) -> None:
    """Send to the child's whole group; one that is over and waited for is left alone."""
    if _lives(child):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.process.pid, number)


def _how(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return f"killed by {signal.Signals(-code).name}"
    return f"killed by signal {-code}"
