"""How fast the console's pages are, and what an open page costs the browser.

Run: python benchmarks/console.py [--kinds sqlite postgres] [--jobs 10000] [--events 1000000].
Times are those of the whole answer, over HTTP from another process; a run's page is opened first
without its series, then again. The browser is the system's Chromium. Asserts nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import httpx  # noqa: E402
from playwright.sync_api import Page, Request, sync_playwright  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from tests.own_databases import Installation, own_databases  # noqa: E402
from tests.servers import Web, start_web  # noqa: E402

NAMES = {"sqlite": "SQLite", "postgres": "PostgreSQL"}
REPEATS = 15
EVENTS_PER_SECOND = 10
SECONDS = 20  # of events, for the share of the main thread
FIRST_STEP = 1001  # of those events
STEPS = (100, 100_000)

# An admin who is logged in: prints the cookie of a session.
LOG_IN = """
from django.contrib.auth.models import Group, User
from django.test import Client
user = User.objects.create_superuser("bench", password="a-long-password")
client = Client()
client.force_login(user)
print(client.cookies["sessionid"].value)
"""
# A run of so many steps, as reports would leave it, but written at once.
MAKE_RUN = """
import math
from django.db import connection
from tests.factories import make_job
from training.models import JobEvent, TrainingJob
steps = {steps}
job = make_job(name=f"run of {{steps}} steps", num_train_steps=steps * 2)
events = (
    JobEvent(
        run=job, seq=seq, position=seq, type="progress", source="trainer",
        data=dict(step=seq, loss=1 + math.exp(-seq / steps), learning_rate=1e-4,
                  elapsed_seconds=float(seq), tokens=seq * 100),
    )
    for seq in range(1, steps + 1)
)
JobEvent.objects.bulk_create(events, batch_size=5000)
connection.cursor().execute("ANALYZE")  # PostgreSQL does so by itself, but later
TrainingJob.objects.filter(pk=job.pk).update(
    next_seq=steps + 1, last_step=steps, last_loss=1.4, status="training"
)
print(job.pk)
"""
MAKE_JOBS = """
from tests.factories import make_job
from training.models import TrainingJob
from training.tokens import new_job_id, new_nonce
job = make_job(events=False)
names = [field.attname for field in job._meta.concrete_fields if not field.primary_key]
rows = []
for number in range({jobs}):
    job.pk, job.job_id, job.nonce, job.name = None, new_job_id(), new_nonce(), f"run {{number}}"
    job.token_hash = job.nonce
    rows.append({{name: getattr(job, name) for name in names}})
TrainingJob.objects.bulk_create([TrainingJob(**row) for row in rows], batch_size=500)
print(TrainingJob.objects.count())
"""
REPORT = """
import sys, time
from training.contract import parse_report
from training.events import append_events
start = time.monotonic()
for number in range({number}):
    time.sleep(max(0, start + number / {rate} - time.monotonic()))
    report = dict(type="progress", boot="b", seq=number, step={first} + number, loss=1.5)
    append_events({run}, [parse_report(report)], db="default")
print("done")
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kinds", nargs="+", choices=list(NAMES), default=list(NAMES))
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--events", type=int, default=1_000_000)
    options = parser.parse_args()
    times, console = Table("database", "page", "first ms", "again p50 ms", "KB"), Console()
    for kind in options.kinds:
        with tempfile.TemporaryDirectory() as folder, own_databases(kind, Path(folder)) as own:
            for row in _measure_pages(own, Path(folder), options.jobs, options.events):
                times.add_row(NAMES[kind], *row)
    console.print(times)
    with tempfile.TemporaryDirectory() as folder, own_databases("sqlite", Path(folder)) as own:
        console.print(_measure_browser(own, Path(folder)))
    console.print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")


def _measure_pages(
    own: Installation, folder: Path, num_jobs: int, num_events: int
) -> list[tuple[str, ...]]:
    """(page, first time, later times, size) of each page."""
    pages = {}
    for steps in STEPS:
        run = own.python(MAKE_RUN.format(steps=steps))
        pages[f"run, {steps:,} steps"] = f"/console/jobs/{run}/"
    own.python(MAKE_JOBS.format(jobs=num_jobs))
    pages[f"runs, {num_jobs:,} jobs"] = "/console/jobs/"
    pages["runs, a search"] = "/console/jobs/?q=run+77&sort=name"
    pages["overview"] = "/console/"
    if num_events > STEPS[-1]:
        own.python(MAKE_RUN.format(steps=num_events - sum(STEPS)))
        pages[f"admin, {num_events:,} events"] = "/admin/training/jobevent/"
        pages["admin, the last of its pages"] = "/admin/training/jobevent/?p=100"
    with _web(own, folder) as web, _client(web, own) as client:
        client.get("/console/settings/")  # the first page of a process compiles its templates
        return [(name, *_times(client, path)) for name, path in pages.items()]


def _times(client: httpx.Client, path: str) -> tuple[str, str, str]:
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        answer = client.get(path).raise_for_status()
        times.append(1000 * (time.perf_counter() - start))
    again = sorted(times[1:])[REPEATS // 2]
    return f"{times[0]:.0f}", f"{again:.0f}", f"{answer.num_bytes_downloaded / 1000:.1f}"


def _measure_browser(own: Installation, folder: Path) -> Table:
    """First load of a run's page, and the main thread's share while events come in."""
    run = own.python(MAKE_RUN.format(steps=FIRST_STEP - 1))
    path = shutil.which("chromium") or shutil.which("chromium-browser")
    with _web(own, folder) as web, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        context = browser.new_context(viewport={"width": 1440, "height": 900})
        cookie = {"name": "sessionid", "value": own.python(LOG_IN), "url": web.url}
        context.add_cookies([cookie])
        page = context.new_page()
        sizes: list[int] = []

        def note(request: Request) -> None:
            sizes.append(_size(request))

        page.on("requestfinished", note)
        page.goto(f"{web.url}/console/jobs/{run}/")
        page.wait_for_load_state("load")
        page.locator("[data-feed-state]:has-text('Live')").wait_for()
        page.remove_listener("requestfinished", note)
        table = Table("browser, a run's page", "")
        table.add_row("requests of the first load", str(len([size for size in sizes if size])))
        table.add_row("KB of the first load", f"{sum(sizes) / 1000:.1f}")
        share = _busy_share(page, own, run)
        table.add_row(f"main thread at {EVENTS_PER_SECOND} events/s, % of a core", f"{share:.1f}")
        browser.close()
    return table


def _size(request: Request) -> int:
    if request.url.startswith("data:") or "/events" in request.url:
        return 0
    found = request.sizes()
    return found["responseBodySize"] + found["responseHeadersSize"]


def _busy_share(page: Page, own: Installation, run: str) -> float:
    """Percent of the time that the main thread worked while events came in."""
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable")

    def busy() -> float:
        found = session.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in found if one["name"] == "TaskDuration")

    number = EVENTS_PER_SECOND * (SECONDS + 5)
    with ThreadPoolExecutor(1) as pool:
        report = REPORT.format(run=run, number=number, rate=EVENTS_PER_SECOND, first=FIRST_STEP)
        writing = pool.submit(own.python, report)
        page.locator(f"[data-step]:not([data-step='{FIRST_STEP - 1}'])").wait_for()
        before, start = busy(), time.monotonic()
        page.wait_for_timeout(1000 * SECONDS)
        share = 100 * (busy() - before) / (time.monotonic() - start)
        writing.result()
    return share


@contextmanager
def _web(own: Installation, folder: Path) -> Iterator[Web]:
    web = start_web(own.env, folder / "web.log")
    try:
        yield web
    finally:
        web.stop()


def _client(web: Web, own: Installation) -> httpx.Client:
    cookies = {"sessionid": own.python(LOG_IN)}
    return httpx.Client(base_url=web.url, cookies=cookies, timeout=120)


if __name__ == "__main__":
    main()
