"""Readers that are dropped and hop between servers that are killed, while jobs are written.

    python -m tests.training.feed.race --clients 200 --kind sqlite|postgres|redis

starts everything on databases of its own and prints what came of it. The suite runs the same on
its own databases. Writer, readers and servers are processes of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
NUM_KILLS = 2
CLIENTS_PER_PROCESS = 50


@dataclass(frozen=True)
class Race:
    """What to run: readers of `run_ids`, each of which gets `num_events` more events."""

    env: Mapping[str, str]  # of servers and writer
    db: str  # as in `?db=`
    token: str
    run_ids: Sequence[int]
    num_clients: int
    num_events: int
    events_per_second: float  # of each job
    folder: Path
    seed: int = 0


@dataclass(frozen=True)
class Outcome:
    """What came of it. `wrong` names each reader that did not get every event once, in order."""

    num_clients: int
    num_connects: int
    num_drops: int
    fewest_drops: int
    num_lost_connections: int
    num_kills: int
    seconds: float
    wrong: list[str]


def run(race: Race) -> Outcome:
    from tests.servers import start_web

    started = time.monotonic()
    with ExitStack() as stack:
        webs = [start_web(race.env, race.folder / f"web-{number}.log") for number in range(2)]
        for web in webs:
            stack.callback(web.kill)
        readers = [stack.enter_context(_readers(race, webs, part)) for part in _parts(race)]
        writer = stack.enter_context(_writer(race))
        num_kills = _kill_while_written(writer, webs[1], race)
        results = [result for reader in readers for result in _results(reader)]
    return Outcome(
        num_clients=len(results),
        num_connects=sum(result["connects"] for result in results),
        num_drops=sum(result["drops"] for result in results),
        fewest_drops=min(result["drops"] for result in results),
        num_lost_connections=sum(result["lost"] for result in results),
        num_kills=num_kills,
        seconds=round(time.monotonic() - started, 1),
        wrong=[result["wrong"] for result in results if result["wrong"]],
    )


def _parts(race: Race) -> Iterator[range]:
    for first in range(0, race.num_clients, CLIENTS_PER_PROCESS):
        yield range(first, min(first + CLIENTS_PER_PROCESS, race.num_clients))


@contextmanager
def _readers(race: Race, webs: Sequence, part: range) -> Iterator[subprocess.Popen]:
    task = {
        "urls": [f"{web.url}/v1/gb/training/events?db={race.db}" for web in webs],
        "token": race.token,
        "run_ids": list(race.run_ids),
        "last_seq": race.num_events,  # one event was there before
        "numbers": list(part),
        "seed": race.seed,
    }
    command = [sys.executable, "-m", "tests.training.feed.race_reader", json.dumps(task)]
    with _child(command, {"PATH": os.environ["PATH"]}) as process:
        yield process


@contextmanager
def _writer(race: Race) -> Iterator[subprocess.Popen]:
    task = {
        "db": race.db,
        "run_ids": list(race.run_ids),
        "num_events": race.num_events,
        "events_per_second": race.events_per_second,
        "seed": race.seed,
    }
    command = [sys.executable, "-m", "tests.training.feed.race_writer", json.dumps(task)]
    with _child(command, race.env) as process:
        yield process


@contextmanager
def _child(command: Sequence[str], env: Mapping[str, str]) -> Iterator[subprocess.Popen]:
    process = subprocess.Popen(command, cwd=ROOT, env=dict(env), stdout=subprocess.PIPE, text=True)
    with process:
        try:
            yield process
        finally:
            process.kill()


def _kill_while_written(writer: subprocess.Popen, web, race: Race) -> int:
    """Kill one server at random moments of the writing, and start it again at once."""
    chance = random.Random(race.seed)
    third = race.num_events // (NUM_KILLS + 1)
    moments = [third * (number + 1) + chance.randrange(third // 2) for number in range(NUM_KILLS)]
    num_kills = 0
    for line in writer.stdout:
        if moments and int(line) >= moments[0]:
            moments.pop(0)
            web.kill()
            web.start()
            num_kills += 1
    if writer.wait() != 0:
        raise AssertionError("the writer failed")
    return num_kills


def _results(reader: subprocess.Popen) -> list[dict]:
    output, _ = reader.communicate(timeout=120)
    if reader.returncode != 0:
        raise AssertionError("a reader process failed")
    return json.loads(output)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--clients", type=int, default=200)
    parser.add_argument("--events", type=int, default=600)
    parser.add_argument("--rate", type=float, default=20, help="events per second and job")
    parser.add_argument("--kind", choices=["sqlite", "postgres", "redis"], default="sqlite")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    from tests.own_databases import own_databases

    with tempfile.TemporaryDirectory() as folder, own_databases(options.kind, Path(folder)) as own:
        race = Race(
            env=own.env | {"GLIGABAO_MAX_STREAMS_PER_USER": str(options.clients + 100)},
            db="standard",
            token=own.token(),
            run_ids=own.jobs(2),
            num_clients=options.clients,
            num_events=options.events,
            events_per_second=options.rate,
            folder=Path(folder),
            seed=options.seed,
        )
        outcome = run(race)
    for name, value in vars(outcome).items():
        print(f"{name:22} {value}")
    sys.exit(1 if outcome.wrong else 0)


if __name__ == "__main__":
    main()
