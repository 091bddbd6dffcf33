"""Random walks: a job of 100 steps, at least three faults, and then everything must be true.

    python -m tests.faults.walk [--walks 12] [--seed 1]

Walk n has the seed SEED + n and draws from it its faults, their moments and how long they last.
The installations take turns: SQLite, PostgreSQL, PostgreSQL with Redis. Prints each walk, a table
of the faults by the status that they struck, and what broke; exit code 1 if something did.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import httpx
from rich.console import Console
from rich.table import Table

from tests.faults import faults
from tests.faults.installation import ROOT, Installation, wait_until
from tests.faults.services import PostgresCluster, RedisServer, SmallDisk
from tests.faults.witnesses import PAGE_STATUS, Witness, feed_witness

KINDS = ("sqlite", "postgres", "redis")
STATUSES = ("queued", "started", "running", "training", "uploading")
FINAL = ("completed", "failed", "cancelled")
# About a tenth of a second for each step, so that faults meet all of a job.
BODY = {
    "base_model": "tiny",
    "num_train_steps": 100,
    "hyperparams": {"batch_size": 16, "gradient_accumulation_steps": 2, "checkpoint_every": 10},
}
SETTLE_SECONDS = 240


@dataclass
class Tally:
    """What all walks saw."""

    struck: Counter[tuple[str, str]] = field(default_factory=Counter)
    ends: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)

    def table(self) -> Table:
        table = Table("fault", *STATUSES, "over")
        for name in sorted({name for name, _ in self.struck}):
            row = [self.struck[name, status] for status in STATUSES]
            over = sum(self.struck[name, status] for status in FINAL)
            table.add_row(name, *(str(number or "") for number in (*row, over)))
        return table


@dataclass
class Ground:
    """An installation of one kind, and what of it can be hurt."""

    kind: str
    installation: Installation
    postgres: PostgresCluster | None = None
    redis: RedisServer | None = None
    disk: SmallDisk | None = None
    clock: Path | None = None

    @property
    def faults(self) -> dict:
        return {
            **faults.ALWAYS,
            **(faults.WITH_POSTGRES if self.postgres else {}),
            **(faults.WITH_REDIS if self.redis else {}),
            **(faults.WITH_DISK if self.disk else {}),
            **faults.WITH_CLOCK,
        }


@contextlib.contextmanager
def ground(kind: str, folder: Path) -> Iterator[Ground]:
    """An installation that runs, on services of its own."""
    folder.mkdir()
    folder.chmod(0o755)  # PostgreSQL's user must get through
    with contextlib.ExitStack() as stack:
        found = Ground(kind, Installation(folder / "own"))
        env = found.installation.extra_env
        found.installation.folder.mkdir()
        if kind != "sqlite":
            found.postgres = PostgresCluster(folder / "postgres")
            found.postgres.make()
            stack.callback(found.postgres.stop_at_once)
            env["DATABASE_URL"] = found.postgres.url
        if kind == "redis":
            found.redis = RedisServer(folder)
            found.redis.start()
            stack.callback(found.redis.kill)
            env["REDIS_URL"] = found.redis.url
        if SmallDisk.is_possible():
            found.disk = SmallDisk(found.installation.folder / "data")
            found.disk.mount()
            stack.callback(found.disk.unmount)
        found.clock = folder / "clock"
        faults.set_clock(found.clock, 0)
        env |= {"PYTHONPATH": str(faults.CLOCK), "GLIGABAO_TEST_CLOCK": str(found.clock)}
        found.installation.start()
        stack.callback(found.installation.stop)
        yield found


@dataclass
class Walk:
    """One job, its faults, and what must hold when it is over."""

    seed: int
    ground: Ground
    tally: Tally

    def run(self) -> None:
        chance = random.Random(self.seed)
        installation = self.ground.installation
        key = f"walk-{self.seed}-{time.time_ns()}"
        job = self._start(key)
        feed = feed_witness(installation, job["id"], "standard")
        feed.start()
        scene = faults.Scene(
            installation, chance, job, key, BODY,
            self.ground.postgres, self.ground.redis, self.ground.disk, self.ground.clock,
        )  # fmt: skip
        try:
            self._strike_all(scene, feed)
            self._settle(scene, feed)
            self._check(scene, feed)
        except (TimeoutError, AssertionError) as error:
            self._break(str(error))
        finally:
            feed.done.set()

    def _start(self, key: str) -> dict:
        with self.ground.installation.api() as api:
            answer = api.post("/v1/gb/training/jobs", json=BODY, headers={"Idempotency-Key": key})
            answer.raise_for_status()
            return answer.json()

    def _strike_all(self, scene: faults.Scene, feed: Witness) -> None:
        chance, known = scene.chance, self.ground.faults
        weights = [weight for _, weight in known.values()]
        names = chance.choices(list(known), weights, k=chance.randint(3, 5))
        print(f"walk {self.seed} on {self.ground.kind}: {', '.join(names)}", flush=True)
        open_heals: list[faults.Heal] = []
        try:
            for name in names:
                time.sleep(chance.uniform(0, 5))
                status = feed.said[-1].status if feed.said else "queued"
                self.tally.struck[name, status] += 1
                heal = known[name][0](scene)
                time.sleep(chance.uniform(0.5, 6))
                if chance.random() < 0.3:
                    open_heals.append(heal)  # it lasts into the next fault
                else:
                    heal()
        finally:
            for heal in open_heals:
                heal()

    def _settle(self, scene: faults.Scene, feed: Witness) -> None:
        def row() -> dict | None:
            # Whatever was hurt may still be coming back.
            with contextlib.suppress(httpx.HTTPError, ValueError), scene.installation.api() as api:
                answer = api.get(f"/v1/gb/training/jobs/{scene.job['id']}")
                found = answer.json() if answer.status_code == 200 else {}
                return found if found.get("status") in FINAL else None
            return None

        found = wait_until(row, SETTLE_SECONDS, f"the end of job {scene.job['id']}")
        self.tally.ends[found["status"]] += 1
        print(f"  job {found['id']}: {found['status']} {found['reason'] or ''}", flush=True)
        if found["status"] == "failed" and not scene.may_fail:
            self._break(f"failed although nothing hurt its trainer: {found['error']}")
        if found["status"] == "cancelled" and not scene.is_stopped_by_user:
            self._break("cancelled although nobody asked for it")
        self._check_page(scene, found["status"])
        wait_until(
            lambda: feed.seqs and feed.said[-1].status == found["status"], 60, "the feed's end"
        )

    def _check_page(self, scene: faults.Scene, status: str) -> None:
        browser = scene.installation.browser()
        page = browser.get(f"/console/jobs/{scene.job['id']}/").text
        browser.close()
        if PAGE_STATUS.search(page).group(1) != status:
            self._break("the page says something else than the row")

    def _check(self, scene: faults.Scene, feed: Witness) -> None:
        done = subprocess.run(
            [sys.executable, "-m", "tests.faults.invariants", "default", str(scene.job["id"])],
            cwd=ROOT, env=_without_clock(scene.installation.env),
            capture_output=True, text=True, timeout=120, check=False,
        )  # fmt: skip
        if done.returncode:
            raise AssertionError(f"the invariants could not be read:\n{done.stderr[-2000:]}")
        found = json.loads(done.stdout.splitlines()[-1])
        for sentence in found["broken"]:
            self._break(sentence)
        number = found["num_events"]
        wait_until(lambda: len(feed.seqs) >= number, 60, "the feed has every row")
        if feed.seqs != list(range(number)):
            self._break(f"the feed gave {len(feed.seqs)} of {number} rows, or not in order")

    def _break(self, what: str) -> None:
        sentence = f"walk {self.seed} on {self.ground.kind}: {what}"
        print(f"  BROKEN {sentence}", flush=True)
        self.tally.broken.append(sentence)


def _without_clock(env: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in env.items() if name != "GLIGABAO_TEST_CLOCK"}


def kind_of(seed: int) -> str:
    """The installation of a walk: a seed always walks on the same kind."""
    return KINDS[(seed - 1) % len(KINDS)]


def walk_all(num_walks: int, seed: int, *, keep: Path | None = None) -> Tally:
    """The walks of each kind in one installation, so that one walk may hurt the next."""
    tally = Tally()
    with tempfile.TemporaryDirectory(prefix="gligabao-walks-") as temporary:
        folder = keep or Path(temporary)
        folder.chmod(0o755)
        for kind in KINDS:
            seeds = [one for one in range(seed, seed + num_walks) if kind_of(one) == kind]
            if seeds:
                with ground(kind, folder / kind) as found:
                    for one in seeds:
                        Walk(one, found, tally).run()
    return tally


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--walks", type=int, default=12)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", type=Path, help="a folder that keeps logs and databases")
    options = parser.parse_args()
    if options.keep:
        options.keep.mkdir(parents=True)
    tally = walk_all(options.walks, options.seed, keep=options.keep)
    console = Console(width=120)
    console.print(tally.table())
    ends = ", ".join(f"{number} {status}" for status, number in tally.ends.most_common())
    console.print(f"{options.walks} walks from seed {options.seed}: {ends or 'no job ended'}")
    if not SmallDisk.is_possible():
        console.print("Not struck: a full disk (needs root).")
    for sentence in tally.broken:
        print(f"BROKEN: {sentence}")
    print("all invariants hold" if not tally.broken else f"{len(tally.broken)} broken")
    return 1 if tally.broken else 0


if __name__ == "__main__":
    sys.exit(main())
