"""How long an event takes from being stored to its readers, over HTTP from other processes.

Run: python benchmarks/feed.py [--clients 1 200] [--kinds sqlite postgres redis]. The time counts
from before the insert, so the commit is in it. Prints one table; asserts nothing.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.own_databases import Installation, own_databases  # noqa: E402
from tests.servers import start_web  # noqa: E402
from tests.sse import SseParser  # noqa: E402

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "PostgreSQL, Redis"}
RATES = {1: 20}  # events per second for so many clients
MANY_CLIENTS_RATE = 10
NUM_EVENTS = 200
WARM_UP = 10  # events that are not counted


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, nargs="+", default=[1, 200])
    parser.add_argument("--kinds", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--events", type=int, default=NUM_EVENTS)
    parser.add_argument("--write", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.write:
        _write(**json.loads(options.write))
        return
    table = Table("database", "clients", "events/s", "received", "p50 ms", "p99 ms", "max ms")
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder, own_databases(kind, Path(folder)) as own:
            for row in _measure(own, Path(folder), options.clients, num_events=options.events):
                table.add_row(NAMES[kind], *row)
    console = Console()
    console.print(table)
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


def _measure(
    own: Installation, folder: Path, clients: list[int], *, num_events: int
) -> list[list[str]]:
    env = own.env | {"GLIGABAO_MAX_STREAMS_PER_USER": str(max(clients) + 10)}
    web = start_web(env, folder / "web.log")
    token = own.token()
    rows = []
    try:
        for number in clients:
            (run_id,) = own.jobs(1)
            url = f"/v1/gb/training/events?run_id={run_id}&from=1"
            rate = RATES.get(number, MANY_CLIENTS_RATE)
            write = json.dumps({"run_id": run_id, "rate": rate, "number": num_events})
            delays = asyncio.run(_read(web.port, url, token, number, write, env))
            rows.append(_row(number, rate, num_events, delays))
    finally:
        web.stop()
    return rows


def _row(clients: int, rate: int, num_events: int, delays: list[float]) -> list[str]:
    counted = sorted(delays)
    wanted = clients * (num_events - WARM_UP)
    figures = [counted[int(len(counted) * share)] for share in (0.5, 0.99)] + [counted[-1]]
    return [
        str(clients),
        str(rate),
        f"{len(counted)}/{wanted}",
        *(f"{1000 * seconds:.1f}" for seconds in figures),
    ]


async def _read(
    port: int, url: str, token: str, number: int, write: str, env: dict[str, str]
) -> list[float]:
    """Open the streams, then let another process write; the delays that all readers saw."""
    num_events = json.loads(write)["number"]
    opened = asyncio.Semaphore(0)
    readers = [
        asyncio.create_task(_reader(port, url, token, num_events, opened)) for _ in range(number)
    ]
    for _ in range(number):
        await opened.acquire()
    writer = subprocess.Popen([sys.executable, __file__, "--write", write], cwd=ROOT, env=env)
    try:
        delays = await asyncio.gather(*readers)
    finally:
        writer.wait()
    return [delay for of_reader in delays for delay in of_reader]


async def _reader(
    port: int, url: str, token: str, num_events: int, opened: asyncio.Semaphore
) -> list[float]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET {url} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n\r\n"
    writer.write(head.encode())
    await reader.readuntil(b"\r\n\r\n")
    parser = SseParser()
    delays = []
    while len(delays) < num_events:
        data = await reader.read(65536)
        now = time.time()
        for message in parser.feed(data):
            if message.data is None:
                opened.release()  # the comment that opens the stream
            else:
                delays.append(now - message.data["timestamp"])
    writer.transport.abort()
    return delays[WARM_UP:]


def _write(run_id: int, rate: float, number: int) -> None:
    import django

    django.setup()
    from training.contract import parse_report
    from training.events import append_events

    started = time.monotonic()
    for step in range(number):
        time.sleep(max(0, started + step / rate - time.monotonic()))
        report = {"type": "progress", "boot": "b", "seq": step, "step": step, "loss": 1.0}
        reports = [parse_report(report | {"timestamp": time.time()})]
        append_events(run_id, reports, db="default")


if __name__ == "__main__":
    main()
