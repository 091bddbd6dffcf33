"""Uploads the finished files to addresses that are asked for when they are needed."""

from __future__ import annotations

import json
import re
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Sequence
from dataclasses import asdict
from http.client import HTTPException
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .artifacts import Artifact
from .errors import JobFailed
from .transport import open_request

if TYPE_CHECKING:
    from .secret_text import SecretText
    from .stop import StopSignal

PUT_TIMEOUT_SECONDS = 60.0  # without any progress
ASK_TIMEOUT_SECONDS = 10.0
MAX_RETRY_SECONDS = 60.0  # all waiting of one upload together
MAX_BACKOFF_SECONDS = 8.0
MAX_ANSWER_BYTES = 1 << 22
S3_CODE = re.compile(r"<Code>\s*([A-Za-z0-9]{1,64})\s*</Code>")


class UploadGivenUp(Exception):
    """Nobody takes the files now. They stay where they are; the message says why."""


class _AddressExpired(Exception):
    """The address was signed too long ago."""


class Uploader:
    """Uploads the files of one job.

    Lost connections and server errors are tried again, for 60 seconds in all; an answer that
    says no is final.
    """

    def __init__(
        self, address: str, *, job_token: str, secret_text: SecretText, stop: StopSignal
    ) -> None:
        self._address = address
        self._job_token = job_token
        self._secret_text = secret_text
        self._stop = stop
        self._retry_seconds_left = MAX_RETRY_SECONDS

    def upload(self, output: Path, files: Sequence[Artifact]) -> None:
        """Put every file. Raises UploadGivenUp (may be copied later) or JobFailed (refused)."""
        addresses = self._ask(files)
        for number, file in enumerate(files):
            self._stop.check()
            try:
                self._put(output, file, addresses)
            except _AddressExpired:
                addresses = self._ask(files[number:])
                try:
                    self._put(output, file, addresses)
                except _AddressExpired as error:
                    raise JobFailed(
                        "trainer_error",
                        f"Upload of {file.path}: the storage says that a fresh address has "
                        "expired. Check the clocks of the control plane and the storage.",
                    ) from error
            print(f"uploaded {file.path} ({file.size_bytes} bytes)", flush=True)

    def _ask(self, files: Sequence[Artifact]) -> dict[str, dict[str, Any]]:
        """Fresh addresses by path."""
        request = urllib.request.Request(  # noqa: S310 - the address is the signed spec's
            self._address,
            data=json.dumps({"files": [asdict(file) for file in files]}).encode(),
            method="POST",
            headers={
                "Authorization": f"Bearer {self._job_token}",
                "Content-Type": "application/json",
            },
        )
        backoff = 1.0
        while True:
            try:
                with open_request(request, timeout=ASK_TIMEOUT_SECONDS) as response:
                    answer = json.loads(response.read(MAX_ANSWER_BYTES))
                return self._read_addresses(answer)
            except urllib.error.HTTPError as error:
                error.close()
                if error.code < 500:
                    raise UploadGivenUp(
                        f"upload addresses were refused with status {error.code}"
                    ) from None
                problem = f"upload addresses: status {error.code}"
            except (OSError, HTTPException, ValueError, KeyError, TypeError) as error:
                problem = f"upload addresses: {type(error).__name__}"
            backoff = self._wait(backoff, problem)

    def _read_addresses(self, answer: dict[str, Any]) -> dict[str, dict[str, Any]]:
        addresses = {entry["path"]: entry for entry in answer["files"]}
        for entry in addresses.values():
            self._secret_text.remember_address(entry["url"])
        return addresses

    def _put(self, output: Path, file: Artifact, addresses: dict[str, dict[str, Any]]) -> None:
        address = addresses.get(file.path)
        if address is None or address.get("method") != "PUT":
            raise UploadGivenUp(f"there is no address for {file.path}")
        backoff = 1.0
        while True:
            try:
                self._put_once(output / file.path, file, address)
                return
            except urllib.error.HTTPError as error:
                code = _s3_code(error)
                if error.code < 500:
                    raise _refusal(file, error, code) from None
                problem = f"{file.path}: status {error.code} {code}".strip()
            except (OSError, HTTPException) as error:
                problem = f"{file.path}: {type(error).__name__}"
            backoff = self._wait(backoff, problem)

    def _put_once(self, path: Path, file: Artifact, address: dict[str, Any]) -> None:
        headers = {"Content-Length": str(file.size_bytes)} | dict(address.get("headers") or {})
        with path.open("rb") as stream:
            request = urllib.request.Request(  # noqa: S310 - given by our own control plane
                address["url"],
                data=_StoppableFile(stream, self._stop),
                method="PUT",
                headers=headers,
            )
            open_request(request, timeout=PUT_TIMEOUT_SECONDS).close()

    def _wait(self, backoff: float, problem: str) -> float:
        """Wait before another try and return the next back-off."""
        print(f"upload: {problem}; trying again", file=sys.stderr, flush=True)
        if self._retry_seconds_left <= 0:
            raise UploadGivenUp(problem)
        pause = min(backoff, self._retry_seconds_left)
        self._retry_seconds_left -= pause
        end = time.monotonic() + pause
        while (left := end - time.monotonic()) > 0:
            self._stop.check()
            time.sleep(min(0.2, left))
        return min(2 * backoff, MAX_BACKOFF_SECONDS)


class _StoppableFile:
    """A file whose reading ends when the job should: a large upload is broken off."""

    def __init__(self, stream: IO[bytes], stop: StopSignal) -> None:
        self._stream = stream
        self._stop = stop

    def read(self, size: int = -1) -> bytes:
        self._stop.check()
        return self._stream.read(size)


def _s3_code(error: urllib.error.HTTPError) -> str:
    """The error code in the body of an answer, or an empty text."""
    with error:
        try:
            body = error.read(65536).decode("utf-8", errors="replace")
        except (OSError, HTTPException):
            return ""
    if "expired" in body.lower():
        return "expired"
    match = S3_CODE.search(body)
    return match[1] if match else ""


def _refusal(file: Artifact, error: urllib.error.HTTPError, code: str) -> Exception:
    if error.code == 403 and code == "expired":
        return _AddressExpired()
    return JobFailed(
        "trainer_error",
        f"Upload of {file.path} was refused with status {error.code} {code}".strip() + ".",
    )
