"""A real `manage.py up` for tests: its own data folder, a port of the system's choice."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import psutil

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent.parent
CHILDREN = ("web", "worker", "beat")


class Up:
    """One running `up`. Its output goes to `log`."""

    def __init__(self, data_dir: Path, *arguments: str, **environment: str) -> None:
        data_dir.mkdir(exist_ok=True)
        self.data_dir = data_dir
        self.log = data_dir / "up.log"
        self.environment = base_environment(data_dir) | environment
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", "0", *arguments],
                cwd=ROOT,
                env=self.environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def __enter__(self) -> Up:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(30)

    @property
    def output(self) -> str:
        return self.log.read_text()

    @property
    def url(self) -> str:
        """The address that it prints."""
        return self.line(r"Pages +(http://\S+)/")

    def line(self, pattern: str) -> str:
        """The first group of this pattern, once the output has it."""

        def look() -> re.Match[str] | None:
            assert self.process.poll() is None or re.search(pattern, self.output), self.output
            return re.search(pattern, self.output)

        return eventually(look, seconds=60).group(1)

    def wait_until_ready(self) -> None:
        url = self.url
        eventually(lambda: status_of(f"{url}/readyz") == 200, seconds=60)

    def pid(self, name: str) -> int:
        """The process number of a living child, as its file says."""
        file = self.data_dir / "run" / f"{name}.pid"

        def look() -> int:
            return int(file.read_text()) if file.exists() else 0

        pid = eventually(look, seconds=60)
        return pid if lives(pid) else eventually(lambda: look() if lives(look()) else 0)

    def manage(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Another command on the same data folder."""
        return manage(self.data_dir, *arguments)


def base_environment(data_dir: Path) -> dict[str, str]:
    names = ("PATH", "HOME", "LANG", "VIRTUAL_ENV")
    env = {name: os.environ[name] for name in names if name in os.environ}
    return env | {"GLIGABAO_DATA_DIR": str(data_dir)}


def manage(data_dir: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "manage.py", *arguments],
        cwd=ROOT,
        env=base_environment(data_dir) | environment,
        capture_output=True,
        text=True,
        timeout=120,
    )


def status_of(url: str, *, token: str = "") -> int:
    try:
        with urlopen(_request(url, token), timeout=10) as answer:
            return answer.status
    except HTTPError as error:
        return error.code


def json_of(url: str, *, token: str = "") -> dict:
    with urlopen(_request(url, token), timeout=10) as answer:
        return json.load(answer)


def _request(url: str, token: str) -> Request:
    return Request(url, headers={"Authorization": f"Bearer {token}"} if token else {})


def lives(pid: int) -> bool:
    """A zombie counts as over."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
