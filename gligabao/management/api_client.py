"""A small client of our own HTTP API, for commands that show what it can do."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.error import HTTPError, URLError
from urllib.request import Request, urlopen

ANSWER_SECONDS = 320  # above GLIGABAO_INFER_TIMEOUT_SECONDS, whose refusal says more
SILENCE_SECONDS = 60  # of a stream, which has a comment every 15 seconds


class ApiError(Exception):
    """The server refused, or did not answer; the text says why."""


@dataclass(frozen=True)
class ApiClient:
    """Calls with a token. `url` is the address of the server, without a slash at its end."""

    url: str
    token: str

    def get(self, path: str) -> dict[str, Any]:
        """Raises ApiError."""
        return self._call(self._request(path))

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Raises ApiError."""
        request = self._request(path)
        request.data = json.dumps(body).encode()
        request.add_header("Content-Type", "application/json")
        return self._call(request)

    def events(self, run_id: int) -> Iterator[dict[str, Any]]:
        """Every event of a job, from the first on, for ever.

        A connection that breaks is opened again where it broke. Raises ApiError when the
        server does not come back.
        """
        last_id = ""
        while True:
            request = self._request(f"/v1/gb/training/events?run_id={run_id}")
            request.add_header("Accept", "text/event-stream")
            if last_id:
                request.add_header("Last-Event-ID", last_id)
            try:
                with self._open(request, SILENCE_SECONDS) as lines:
                    for event in _events(lines):
                        last_id = str(event["seq"])
                        yield event
            except OSError:  # cut off, or silent for too long
                continue

    def _request(self, path: str) -> Request:
        headers = {"Authorization": f"Bearer {self.token}"}
        return Request(self.url + path, headers=headers)  # noqa: S310  our own server

    def _call(self, request: Request) -> dict[str, Any]:
        try:
            with self._open(request, ANSWER_SECONDS) as answer:
                return json.load(answer)
        except OSError as error:
            raise ApiError(f"{self.url} broke off its answer: {error}") from error

    def _open(self, request: Request, timeout: float) -> Any:
        try:
            return urlopen(request, timeout=timeout)  # noqa: S310
        except HTTPError as error:
            raise ApiError(f"{error.code}: {_reason(error)}") from error
        except URLError as error:
            raise ApiError(f"{self.url} does not answer: {error.reason}") from error


def _events(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    """The events of a stream. Ours have one line of data each; comments are passed over."""
    for line in lines:
        if line.startswith(b"data: "):
            yield json.loads(line[len(b"data: ") :])


def _reason(error: HTTPError) -> str:
    body = error.read().decode(errors="replace")
    try:
        return json.loads(body)["error"]
    except (ValueError, KeyError, TypeError):
        return body[:200] or str(error.reason)
