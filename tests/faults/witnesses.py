"""What row, feed and page say of a job, each with the moment it was said."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from tests.faults.installation import Installation

EVERY_SECONDS = 0.1
# What a person reads on the page.
PAGE_STATUS = re.compile(r'class="pill ([a-z]+)')
PAGE_STEP = re.compile(r'data-step="(\d+)')


@dataclass(frozen=True)
class Said:
    """A status and the last step, and when (monotonic seconds)."""

    at: float
    status: str
    step: int


@dataclass
class Witness:
    """Watches one job until it is told to stop. A web process that is down is asked again."""

    name: str
    watch: Callable[[Witness], None]
    said: list[Said] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def start(self) -> None:
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        while not self.done.is_set():
            # The server is killed on purpose; the next round asks again.
            with contextlib.suppress(httpx.HTTPError, ConnectionError):
                self.watch(self)
            self.done.wait(EVERY_SECONDS)

    def say(self, status: str, step: int) -> None:
        if not self.said or (self.said[-1].status, self.said[-1].step) != (status, step):
            self.said.append(Said(time.monotonic(), status, step))

    def first_after(self, moment: float, wanted: Callable[[Said], bool]) -> Said | None:
        return next((item for item in self.said if item.at >= moment and wanted(item)), None)


def row_witness(installation: Installation, run_id: int, db: str) -> Witness:
    api = installation.api()

    def watch(witness: Witness) -> None:
        answer = api.get(f"/v1/gb/training/jobs/{run_id}", params={"db": db})
        if answer.status_code == 200:
            row = answer.json()
            witness.say(row["status"], row["last_step"])

    return Witness("row", watch)


def page_witness(installation: Installation, run_id: int, db: str) -> Witness:
    browser = installation.browser()

    def watch(witness: Witness) -> None:
        answer = browser.get(f"/console/jobs/{run_id}/", params={"db": db})
        if answer.status_code == 200:
            status, step = PAGE_STATUS.search(answer.text), PAGE_STEP.search(answer.text)
            witness.say(status.group(1), int(step.group(1)))

    return Witness("page", watch)


def feed_witness(installation: Installation, run_id: int, db: str) -> Witness:
    """A reader of the feed that returns with the last id it saw. `seqs` is what it received."""
    api = installation.api()
    seqs: list[int] = []
    last: dict[str, Any] = {"status": "queued", "step": 0}

    def watch(witness: Witness) -> None:
        headers = {"Last-Event-ID": str(seqs[-1])} if seqs else {}
        address = "/v1/gb/training/events"
        params = {"run_id": run_id, "db": db}
        with api.stream("GET", address, params=params, headers=headers) as stream:
            for line in stream.iter_lines():
                if witness.done.is_set():
                    return
                if line.startswith("data: "):
                    data = json.loads(line.removeprefix("data: "))
                    seqs.append(data["seq"])
                    last["status"] = data.get("status", last["status"])
                    last["step"] = data.get("step") or last["step"]
                    witness.say(last["status"], last["step"])

    witness = Witness("feed", watch)
    witness.seqs = seqs
    return witness
