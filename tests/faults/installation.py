"""A real installation for fault runs: `manage.py up` in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

ROOT = Path(__file__).resolve().parents[2]
START_SECONDS = 60


@dataclass
class Installation:
    """Web, worker and beat on SQLite without Redis; everything lies under `folder`."""

    folder: Path
    extra_env: dict[str, str] = field(default_factory=dict)
    url: str = ""
    token: str = ""
    password: str = ""
    process: subprocess.Popen[bytes] | None = None

    @property
    def env(self) -> dict[str, str]:
        kept = {
            name: value
            for name, value in os.environ.items()
            if not name.startswith("GLIGABAO_") and name not in ("DATABASE_URL", "REDIS_URL")
        }
        return kept | {
            "DJANGO_SETTINGS_MODULE": "gligabao.settings",
            "GLIGABAO_DATA_DIR": str(self.folder / "data"),
            "PYTHONUNBUFFERED": "1",
            **self.extra_env,
        }

    def start(self) -> None:
        """Start it, read the first admin's password, and make a token."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "up.log").open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "manage.py", "up", "--port", "0"],
                cwd=ROOT,
                env=self.env,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        said = self._wait_for(r"Pages\s+(http://\S+?)/?$")
        self.url = said.group(1)
        if found := re.search(r"[Pp]assword:?\s+(\S+)", self.log):
            self.password = found.group(1)
        wait_until(self._is_ready, START_SECONDS, "the web process answers")
        self.token = self.manage("create_token", "--user", "faults", "--role", "admin", "--quiet")

    @property
    def log(self) -> str:
        return (self.folder / "up.log").read_text()

    def _wait_for(self, pattern: str) -> re.Match[str]:
        return wait_until(
            lambda: re.search(pattern, self.log, re.MULTILINE), START_SECONDS, pattern
        )

    def _is_ready(self) -> bool:
        try:
            return httpx.get(f"{self.url}/readyz", timeout=2).status_code == 200
        except httpx.HTTPError:
            return False

    def manage(self, *arguments: str) -> str:
        done = subprocess.run(
            [sys.executable, "manage.py", *arguments],
            cwd=ROOT, env=self.env, capture_output=True, text=True, timeout=120, check=True,
        )  # fmt: skip
        return done.stdout.strip()

    def pid_of(self, child: str) -> int:
        return int((self.folder / "data" / "run" / f"{child}.pid").read_text())

    def trainer_pid(self, job_id: str) -> int:
        folder = self.folder / "data" / "jobs" / job_id
        return json.loads((folder / "trainer.json").read_text())["pid"]

    def kill(self, pid: int) -> float:
        """kill -9; returns the moment."""
        os.kill(pid, signal.SIGKILL)
        return time.monotonic()

    def api(self) -> httpx.Client:
        return httpx.Client(
            base_url=self.url, headers={"Authorization": f"Bearer {self.token}"}, timeout=10
        )

    def browser(self) -> httpx.Client:
        """A logged-in session, as a browser has it."""
        client = httpx.Client(base_url=self.url, timeout=10, follow_redirects=True)
        client.get("/login/")
        answer = client.post(
            "/login/",
            data={
                "username": "admin",
                "password": self.password,
                "csrfmiddlewaretoken": client.cookies["csrftoken"],
            },
            headers={"Referer": f"{self.url}/login/"},
        )
        answer.raise_for_status()
        return client

    def start_job(self, *, db: str = "standard", steps: int, **body: Any) -> dict[str, Any]:
        with self.api() as api:
            answer = api.post(
                "/v1/gb/training/jobs",
                params={"db": db},
                json={"base_model": "tiny", "num_train_steps": steps, **body},
            )
            answer.raise_for_status()
            return answer.json()

    def stop(self) -> None:
        if self.process is None or self.process.poll() is not None:
            return
        self.process.terminate()
        try:
            self.process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def wait_until(ask: Callable[[], Any], seconds: float, what: str) -> Any:
    """The first true answer; raises TimeoutError naming what was waited for."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if answer := ask():
            return answer
        time.sleep(0.05)
    raise TimeoutError(f"not within {seconds:g} s: {what}")
