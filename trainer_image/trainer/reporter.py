"""Numbered reports: into the job's log first, then to the control plane from a thread.

The training thread only appends. A control plane that is away costs no training time and no
report: what could not be sent waits here, and everything is in the log in any case.
"""

from __future__ import annotations

import json
import math
import secrets
import sys
import threading
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Callable, Mapping
from http.client import HTTPException
from pathlib import Path
from typing import Any

from .secret_text import SecretText
from .transport import open_request

SEND_EVERY_SECONDS = 1.0
SEND_AT_REPORTS = 100
MAX_BATCH = 500  # the contract's limit for one POST
HTTP_TIMEOUT_SECONDS = 10.0
MAX_BACKOFF_SECONDS = 30.0
MAX_BACKOFF_AT_END_SECONDS = 2.0
CLOSE_SECONDS = 60.0

GONE = frozenset({401, 403, 404, 410})  # this job has nobody to report to any more
TOO_LARGE_OR_BAD = frozenset({400, 413})


class Reporter:
    """Writes each report to `log_path` and delivers it in order, each at least once."""

    def __init__(
        self,
        log_path: Path,
        *,
        callback_url: str | None,
        job_token: str,
        secret_text: SecretText,
        on_stop: Callable[[], None],
    ) -> None:
        self.boot = secrets.token_hex(8)
        self._callback_url = callback_url
        self._job_token = job_token
        self._secret_text = secret_text
        self._on_stop = on_stop
        self._log = log_path.open("a", encoding="utf-8")
        self._seq = 0
        self._waiting: deque[dict[str, Any]] = deque()
        self._lock = threading.Lock()  # guards seq, log and queue: their order is the same
        self._wake = threading.Event()
        self._closing = threading.Event()
        self._thread = threading.Thread(target=self._run, name="reporter", daemon=True)
        if callback_url:
            self._thread.start()

    def report(self, type: str, **fields: Any) -> None:
        """Number one report, write it to the log and queue it for sending."""
        with self._lock:
            record = {"boot": self.boot, "seq": self._seq, "type": type, "timestamp": time.time()}
            record |= strict_json(fields, self._secret_text)
            self._seq += 1
            self._write(record)
            if self._callback_url:
                self._waiting.append(record)
                if len(self._waiting) >= SEND_AT_REPORTS:
                    self._wake.set()

    def status(self, status: str, **fields: Any) -> None:
        """Report that the job reached a status."""
        self.report("status", status=status, **fields)

    def _write(self, record: Mapping[str, Any]) -> None:
        try:
            self._log.write(json.dumps(record, allow_nan=False) + "\n")
            self._log.flush()
        except OSError as error:  # a full disk must not end the second way out
            print(f"events.jsonl: {error.strerror}", file=sys.stderr)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Wait until everything is delivered, at most `timeout` seconds."""
        self._closing.set()
        self._wake.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        with self._lock:
            if self._waiting:
                print(
                    f"{len(self._waiting)} reports were not delivered; events.jsonl has them",
                    file=sys.stderr,
                )
            self._log.close()

    def _run(self) -> None:
        backoff = 1.0
        while True:
            if self._wait_for_work():
                return
            if self._send_waiting():
                backoff = 1.0
                continue
            longest = MAX_BACKOFF_AT_END_SECONDS if self._closing.is_set() else MAX_BACKOFF_SECONDS
            backoff = min(backoff, longest)
            self._pause(backoff)
            backoff = min(2 * backoff, longest)

    def _wait_for_work(self) -> bool:
        """Wait for the next time to send. True: closed, and nothing is left."""
        if not self._closing.is_set():
            self._wake.wait(SEND_EVERY_SECONDS)
            self._wake.clear()
        return self._closing.is_set() and not self._waiting

    def _pause(self, seconds: float) -> None:
        """Back off; the end of the job cuts a pause short that began before it."""
        if self._closing.is_set():
            time.sleep(seconds)
        else:
            self._closing.wait(seconds)

    def _send_waiting(self) -> bool:
        """Send all that waits. False: nobody answered, try again later."""
        batch_size = MAX_BATCH
        while self._waiting and self._callback_url:
            with self._lock:
                batch = [self._waiting[i] for i in range(min(batch_size, len(self._waiting)))]
            status = self._post(batch)
            if status == 200:
                self._forget(len(batch))
                batch_size = MAX_BATCH
            elif status in TOO_LARGE_OR_BAD and len(batch) > 1:
                batch_size = len(batch) // 2  # halve until the bad one stands alone
            elif status in TOO_LARGE_OR_BAD:
                self._complain(f"report {batch[0]['seq']} was refused with status {status}")
                self._forget(1)
                batch_size = MAX_BATCH
            elif status in GONE:
                self._complain(f"reports are no longer wanted (status {status}); the log has all")
                self._stop_sending()
            else:
                return False
        return True

    def _post(self, batch: list[dict[str, Any]]) -> int:
        """The status of one POST; 0 when nobody answered as a control plane does."""
        request = urllib.request.Request(  # noqa: S310 - the address is the signed spec's
            str(self._callback_url),
            data=json.dumps(batch, allow_nan=False).encode(),
            method="POST",
            headers={
                "Authorization": f"Bearer {self._job_token}",
                "Content-Type": "application/json",
            },
        )
        try:
            with open_request(request, timeout=HTTP_TIMEOUT_SECONDS) as response:
                answer = json.loads(response.read(1 << 20))
        except urllib.error.HTTPError as error:
            error.close()
            return error.code
        except (OSError, HTTPException, ValueError):
            return 0
        if not isinstance(answer, dict) or "accepted" not in answer:
            return 0
        self._read_answer(answer)
        return 200

    def _read_answer(self, answer: Mapping[str, Any]) -> None:
        if answer.get("stop") is True:
            self._on_stop()
        for rejected in answer.get("rejected") or ():
            self._complain(f"a report was rejected: {rejected}")

    def _forget(self, count: int) -> None:
        with self._lock:
            for _ in range(count):
                self._waiting.popleft()

    def _stop_sending(self) -> None:
        with self._lock:
            self._callback_url = None
            self._waiting.clear()

    def _complain(self, message: str) -> None:
        print(self._secret_text.clean(message), file=sys.stderr, flush=True)


def strict_json(value: Any, secret_text: SecretText) -> Any:
    """The value as strict JSON: no secrets, and null with `nonfinite` for NaN and infinities."""
    if isinstance(value, str):
        return secret_text.clean(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        result = {key: strict_json(item, secret_text) for key, item in value.items()}
        nonfinite = [v for v in value.values() if isinstance(v, float) and not math.isfinite(v)]
        if nonfinite:
            result["nonfinite"] = "nan" if math.isnan(nonfinite[0]) else "inf"
        return result
    if isinstance(value, list | tuple):
        return [strict_json(item, secret_text) for item in value]
    return value
