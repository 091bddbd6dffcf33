"""A PostgreSQL cluster, a Redis server and a small disk of a fault run's own."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

import psycopg
import redis

from tests.faults.installation import wait_until

START_SECONDS = 60
DISK_MIB = 512  # of the small disk: storage leaves 256 MiB free, and some tiny jobs take 100


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@dataclass
class PostgresCluster:
    """Made with initdb; ends as by a lost power supply. PostgreSQL refuses to run as root."""

    folder: Path
    port: int = field(default_factory=free_port)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/gligabao"

    def make(self) -> None:
        self.folder.mkdir(mode=0o700)
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
        self._run("initdb", "--username=postgres", "--auth=trust", "--encoding=UTF8")
        self.start()
        with psycopg.connect(self.url.replace("/gligabao", "/postgres"), autocommit=True) as own:
            own.execute("CREATE DATABASE gligabao")

    def start(self) -> None:
        if self._is_listening():
            return
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder}"
        log = self.folder / "log"
        self._run("pg_ctl", "--wait", f"--log={log}", f"--options={options}", "start")

    def stop_at_once(self) -> None:
        """No checkpoint, no good-bye: the next start recovers from the log."""
        if self._is_listening():
            self._run("pg_ctl", "--mode=immediate", "--wait", "stop")

    def kill(self) -> None:
        """kill -9 of the whole cluster; its children end when they notice."""
        if not self._is_listening():
            return
        pid = int((self.folder / "postmaster.pid").read_text().split()[0])
        os.kill(pid, signal.SIGKILL)
        wait_until(lambda: not self._is_listening(), START_SECONDS, "PostgreSQL is gone")

    def _is_listening(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def _run(self, program: str, *arguments: str) -> None:
        command = [str(_postgres_bin() / program), f"--pgdata={self.folder}", *arguments]
        if os.getuid() == 0:
            command = ["runuser", "-u", "postgres", "--", *command]
        log = self.folder.with_suffix(".pg_ctl.log")
        with log.open("ab") as output:
            # A server that was killed leaves memory that its children hold for a moment.
            for _ in range(20):
                if not subprocess.run(
                    command, stdout=output, stderr=output, check=False
                ).returncode:
                    return
                time.sleep(0.5)
        raise RuntimeError(f"{program} failed:\n{log.read_text()[-2000:]}")


def _postgres_bin() -> Path:
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    if found:
        return found[-1]
    program = shutil.which("initdb")
    if program is None:
        raise RuntimeError("PostgreSQL's initdb is not here (Debian: apt install postgresql).")
    return Path(program).parent


@dataclass
class RedisServer:
    """A server without a file: whoever kills it empties it."""

    folder: Path
    port: int = field(default_factory=free_port)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        if self._answers():
            return
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        self.process = subprocess.Popen(
            command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        wait_until(self._answers, START_SECONDS, "Redis answers")

    def _answers(self) -> bool:
        try:
            return redis.Redis(port=self.port, socket_timeout=2).ping()
        except redis.RedisError:
            return False

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def empty(self) -> None:
        if self._answers():
            redis.Redis(port=self.port).flushall()


@dataclass
class SmallDisk:
    """A file system in memory that can be filled up to the last byte. Needs root."""

    folder: Path

    @staticmethod
    def is_possible() -> bool:
        return os.getuid() == 0 and shutil.which("mount") is not None

    def mount(self) -> None:
        self.folder.mkdir(parents=True)
        options = f"size={DISK_MIB}m,mode=700"
        subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(self.folder)], check=True
        )

    def fill(self) -> None:
        with (self.folder / "filler").open("wb", buffering=0) as file:
            for size in (1 << 20, 1 << 12, 1):
                block = bytes(size)
                try:
                    while file.write(block) == size:
                        pass
                except OSError:
                    continue

    def clear(self) -> None:
        (self.folder / "filler").unlink(missing_ok=True)

    def unmount(self) -> None:
        subprocess.run(["umount", "--lazy", str(self.folder)], check=True)
