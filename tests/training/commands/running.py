"""Commands as tests run them: in this process, or as a process of their own."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management import CommandError, call_command

from tests.servers import ROOT, environment
from tests.waiting import eventually


@dataclass
class Result:
    """What a command printed, and how it ended."""

    out: str
    err: str
    code: int
    error: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def json_lines(self) -> list[Any]:
        return [json.loads(line) for line in self.out.splitlines()]


def run(*arguments: Any) -> Result:
    """Run a command here. A CommandError is its end, not ours."""
    out, err = io.StringIO(), io.StringIO()
    code, error = 0, ""
    try:
        call_command(*map(str, arguments), stdout=out, stderr=err)
    except CommandError as raised:
        code, error = raised.returncode, str(raised)
    return Result(out.getvalue(), err.getvalue(), code, error)


def run_until_interrupted(arguments: Sequence[str], *, folder: Path, when_said: str) -> Result:
    """Run `manage.py` as a process and send it a Ctrl-C once it has printed this."""
    out, err = folder / "out", folder / "err"
    with out.open("wb") as stdout, err.open("wb") as stderr:
        process = subprocess.Popen(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT,
            env=environment(),
            stdout=stdout,
            stderr=stderr,
        )
    try:
        eventually(lambda: when_said in out.read_text() + err.read_text() or process.poll())
        process.send_signal(signal.SIGINT)
        code = process.wait(timeout=30)
    finally:
        process.kill()
        process.wait()
    return Result(out.read_text(), err.read_text(), code, err.read_text())
