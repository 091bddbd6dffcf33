"""How fast a start request is answered while no worker runs, and what a web process weighs.

Run: python benchmarks/web.py [--requests 100] [--kinds sqlite postgres redis]. A request writes
the row, its first event and a message for a worker that never takes it. Prints one table;
asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402
import psutil  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.own_databases import Installation, own_databases  # noqa: E402
from tests.servers import start_web  # noqa: E402

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL", "redis": "PostgreSQL, Redis"}
WARM_UP = 5  # requests that are not counted
ADD_SAMPLE = """
from datasets.services import sync_from_directory
print(sync_from_directory("default"))
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--requests", type=int, default=100)
    parser.add_argument("--kinds", nargs="+", choices=list(NAMES), default=list(NAMES))
    options = parser.parse_args()
    table = Table(
        "database", "start request p50 ms", "p99 ms", "list of 50 jobs p50 ms", "web process MiB"
    )
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder, own_databases(kind, Path(folder)) as own:
            table.add_row(NAMES[kind], *_measure(own, Path(folder), options.requests))
    console = Console()
    console.print(table)
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


def _measure(own: Installation, folder: Path, num_requests: int) -> list[str]:
    own.python(ADD_SAMPLE)
    token = own.token()
    web = start_web(own.env, folder / "web.log")
    try:
        headers = {"Authorization": f"Bearer {token}"}
        with httpx.Client(base_url=web.url, headers=headers, timeout=30) as client:
            starts = _times(client, num_requests, "POST", json={"num_train_steps": 10})
            lists = _times(client, num_requests, "GET")
        memory = psutil.Process(web.process.pid).memory_info().rss
    finally:
        web.stop()
    return [
        f"{_share(starts, 0.5):.1f}",
        f"{_share(starts, 0.99):.1f}",
        f"{_share(lists, 0.5):.1f}",
        f"{memory / 2**20:.0f}",
    ]


def _times(client: httpx.Client, number: int, method: str, **body: object) -> list[float]:
    """Milliseconds of each request, sorted."""
    times = []
    for _ in range(number + WARM_UP):
        start = time.perf_counter()
        client.request(method, "/v1/gb/training/jobs", **body).raise_for_status()
        times.append(1000 * (time.perf_counter() - start))
    return sorted(times[WARM_UP:])


def _share(times: list[float], share: float) -> float:
    return times[min(int(len(times) * share), len(times) - 1)]


if __name__ == "__main__":
    main()
