"""What can happen to an installation. A fault strikes and, where it lasts, is healed."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil

from tests.faults.installation import Installation
from tests.faults.services import PostgresCluster, RedisServer, SmallDisk

CLOCK = Path(__file__).with_name("clock")  # what makes a process follow a clock that jumps
JUMPS_SECONDS = (-7200, -90, -20, 20, 90, 7200)
Heal = Callable[[], None]


@dataclass
class Scene:
    """What faults can reach: the processes, the services and the job of one walk."""

    installation: Installation
    chance: random.Random
    job: dict
    key: str  # the Idempotency-Key that started the job
    body: dict
    postgres: PostgresCluster | None = None
    redis: RedisServer | None = None
    disk: SmallDisk | None = None
    clock: Path | None = None  # the file that the processes read their jumps from
    is_stopped_by_user: bool = False
    may_fail: bool = False  # a fault that a job need not survive has struck

    @property
    def trainer(self) -> int | None:
        """The trainer's pid while it lives."""
        folder = self.installation.folder / "data" / "jobs" / self.job["job_id"]
        with contextlib.suppress(OSError, ValueError):
            pid = json.loads((folder / "trainer.json").read_text())["pid"]
            with contextlib.suppress(psutil.NoSuchProcess):
                process = psutil.Process(pid)
                ours = "trainer" in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
                return pid if ours else None
        return None


def nothing() -> None:
    """There is nothing to heal."""


def kill_trainer(scene: Scene) -> Heal:
    if pid := scene.trainer:
        os.kill(pid, signal.SIGKILL)
        scene.may_fail = True
    return nothing


def freeze_trainer(scene: Scene) -> Heal:
    return _freeze(scene.trainer)


def kill_child(name: str) -> Callable[[Scene], Heal]:
    def strike(scene: Scene) -> Heal:
        with contextlib.suppress(OSError, ValueError):  # it is just being started again
            scene.installation.kill(scene.installation.pid_of(name))
        return nothing

    return strike


def freeze_child(name: str) -> Callable[[Scene], Heal]:
    def strike(scene: Scene) -> Heal:
        with contextlib.suppress(OSError, ValueError):
            return _freeze(scene.installation.pid_of(name))
        return nothing

    return strike


def _freeze(pid: int | None) -> Heal:
    if pid is None:
        return nothing
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    return lambda: _thaw(pid)


def _thaw(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGCONT)


def stop_postgres(scene: Scene) -> Heal:
    scene.postgres.stop_at_once()
    return scene.postgres.start


def kill_postgres(scene: Scene) -> Heal:
    scene.postgres.kill()
    return scene.postgres.start


def kill_redis(scene: Scene) -> Heal:
    scene.redis.kill()
    return scene.redis.start


def empty_redis(scene: Scene) -> Heal:
    scene.redis.empty()
    return nothing


def fill_disk(scene: Scene) -> Heal:
    scene.disk.fill()
    scene.may_fail = True
    return scene.disk.clear


def jump_clock(scene: Scene) -> Heal:
    seconds = scene.chance.choice(JUMPS_SECONDS)
    set_clock(scene.clock, seconds)
    scene.may_fail |= abs(seconds) > 3600  # two hours are more than a job may take
    return lambda: set_clock(scene.clock, 0)


def set_clock(file: Path, seconds: int) -> None:
    """Put the processes' clocks so much forward or back."""
    draft = file.with_suffix(".draft")
    draft.write_text(str(seconds))
    draft.replace(file)


def stop_by_user(scene: Scene) -> Heal:
    with contextlib.suppress(httpx.HTTPError), scene.installation.api() as api:
        answer = api.post(f"/v1/gb/training/jobs/{scene.job['id']}/stop")
        scene.is_stopped_by_user = scene.is_stopped_by_user or answer.status_code == 202
    return nothing


def start_again(scene: Scene) -> Heal:
    """The same start with the same key: it must find the job, never make another."""
    with contextlib.suppress(httpx.HTTPError), scene.installation.api() as api:
        answer = api.post(
            "/v1/gb/training/jobs", json=scene.body, headers={"Idempotency-Key": scene.key}
        )
        if answer.status_code < 500 and answer.json().get("id") != scene.job["id"]:
            raise AssertionError(f"the same key gave {answer.status_code} {answer.text[:300]}")
    return nothing


# Each with how often it is drawn. Those that need a service are left out where it is not.
ALWAYS = {
    "kill trainer": (kill_trainer, 1),
    "freeze trainer": (freeze_trainer, 1),
    "kill worker": (kill_child("worker"), 2),
    "kill beat": (kill_child("beat"), 1),
    "kill web": (kill_child("web"), 2),
    "freeze worker": (freeze_child("worker"), 2),
    "freeze web": (freeze_child("web"), 1),
    "stop by user": (stop_by_user, 1),
    "start again": (start_again, 1),
}
WITH_POSTGRES = {
    "stop PostgreSQL": (stop_postgres, 2),
    "kill PostgreSQL": (kill_postgres, 2),
}
WITH_REDIS = {"kill Redis": (kill_redis, 2), "empty Redis": (empty_redis, 2)}
WITH_DISK = {"fill disk": (fill_disk, 3)}
WITH_CLOCK = {"jump clock": (jump_clock, 3)}
