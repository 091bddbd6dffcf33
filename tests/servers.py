"""Real web processes for tests: started, killed, started again at the same address."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.error import HTTPError, URLError
from urllib.request import urlopen

from django.conf import settings
from django.db import connections

from tests.waiting import eventually

ROOT = Path(__file__).resolve().parent.parent


@dataclass
class Web:
    """A web process on a port of its own. Its output goes to `log`."""

    port: int
    env: Mapping[str, str]
    log: Path
    process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        """Start it, and return when it answers."""
        _collect_static_files(self.env)
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gligabao.web", "--port", str(self.port)],
                cwd=ROOT,
                env=dict(self.env),
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        eventually(self._answers, seconds=60)

    def _answers(self) -> bool:
        if self.process.poll() is not None:
            raise AssertionError(f"the web process ended:\n{self.log.read_text()[-4000:]}")
        try:
            with urlopen(f"{self.url}/healthz", timeout=5) as answer:
                return answer.status == 200
        except HTTPError:
            return True
        except (URLError, OSError):
            return False

    def kill(self) -> None:
        """End it as a crash would."""
        self._end(signal.SIGKILL)

    def stop(self) -> None:
        """Ask it to end, and wait for that."""
        self._end(signal.SIGTERM)

    def _end(self, number: int) -> None:
        if self.process is not None and self.process.poll() is None:
            os.kill(self.process.pid, number)
        if self.process is not None:
            self.process.wait(timeout=30)
        self.process = None


def start_web(env: Mapping[str, str], log: Path) -> Web:
    """Start a web process with exactly this environment; see `environment`."""
    web = Web(_free_port(), env, log)
    try:
        web.start()
    except BaseException:
        web.kill()
        raise
    return web


def _collect_static_files(env: Mapping[str, str]) -> None:
    """As `up` does before it starts anything; once for a data folder."""
    code = (
        "import django; django.setup(); "
        "from gligabao.static_files import collect_static_files; collect_static_files()"
    )
    if not (Path(env["GLIGABAO_DATA_DIR"]) / "static" / "collected.json").exists():
        subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=dict(env), check=True)


def environment(**changed: str) -> dict[str, str]:
    """The environment of a child that works on the databases and files of this test process."""
    names = ("PATH", "HOME", "LANG", "TMPDIR", "VIRTUAL_ENV")
    env = {name: os.environ[name] for name in names if name in os.environ}
    others = [name for name in settings.DATABASES if name != "default"]
    env |= {
        "DJANGO_SETTINGS_MODULE": "gligabao.settings",
        "GLIGABAO_DATA_DIR": str(settings.DATA_DIR),
        "DATABASE_URL": database_url("default"),
        "GLIGABAO_DATABASES": ",".join(f"{name}={database_url(name)}" for name in others),
        "PYTHONWARNINGS": "default",
    }
    return env | changed


def database_url(alias: str) -> str:
    """The address of the database that a test uses under this alias."""
    config = connections[alias].settings_dict
    if connections[alias].vendor == "sqlite":
        return f"sqlite:///{config['NAME']}"
    host = config["HOST"] or "127.0.0.1"
    login = config["USER"] + (f":{config['PASSWORD']}" if config["PASSWORD"] else "")
    return f"postgresql://{login}@{host}:{config['PORT'] or 5432}/{config['NAME']}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
