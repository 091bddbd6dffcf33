"""A reader of server-sent events over a plain socket, that a test can pause and drop."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit


@dataclass
class Sse:
    """One message, or with `comment` set one comment line."""

    id: str | None = None
    event: str | None = None
    data: dict[str, Any] | None = None
    comment: str | None = None


@dataclass
class SseParser:
    """Bytes of a chunked HTTP body in, messages out. Comments count as messages."""

    chunked: bytes = b""
    text: bytes = b""
    is_over: bool = False

    def feed(self, data: bytes) -> Iterator[Sse]:
        self.chunked += data
        self._unchunk()
        while b"\n\n" in self.text:
            block, self.text = self.text.split(b"\n\n", 1)
            yield _parse(block.decode())

    def _unchunk(self) -> None:
        while b"\r\n" in self.chunked:
            size_line, rest = self.chunked.split(b"\r\n", 1)
            size = int(size_line, 16)
            if len(rest) < size + 2:
                return
            self.is_over = self.is_over or size == 0
            self.text += rest[:size]
            self.chunked = rest[size + 2 :]


def _parse(block: str) -> Sse:
    message = Sse()
    for line in block.split("\n"):
        name, _, value = line.partition(":")
        value = value.removeprefix(" ")
        if name == "id":
            message.id = value
        elif name == "event":
            message.event = value
        elif name == "data":
            message.data = json.loads(value, parse_constant=_refuse)
        elif name == "":
            message.comment = value
        else:
            raise AssertionError(f"unknown line {line!r}")
    return message


def _refuse(name: str) -> None:
    raise AssertionError(f"{name} is not JSON")


class SseClient:
    """An open stream. Reads block for at most `timeout` seconds."""

    def __init__(self, url, token=None, *, headers=None, timeout=10, buffer_bytes=None):
        parts = urlsplit(url)
        self.socket = socket.socket()
        if buffer_bytes:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer_bytes)
        self.socket.settimeout(timeout)
        self.socket.connect((parts.hostname, parts.port))
        self.parser = SseParser()
        self.waiting: list[Sse] = []
        sent = {"Host": parts.netloc, "Accept": "text/event-stream"}
        if token:
            sent["Authorization"] = f"Bearer {token}"
        sent |= headers or {}
        lines = "".join(f"{name}: {value}\r\n" for name, value in sent.items())
        target = parts.path + (f"?{parts.query}" if parts.query else "")
        self.socket.sendall(f"GET {target} HTTP/1.1\r\n{lines}\r\n".encode())
        self._read_head()

    def _read_head(self):
        head = b""
        while b"\r\n\r\n" not in head:
            head += self._receive()
        head, rest = head.split(b"\r\n\r\n", 1)
        first, *lines = head.decode().split("\r\n")
        self.status = int(first.split(" ")[1])
        self.headers = {
            name.lower(): value for name, value in (line.split(": ", 1) for line in lines)
        }
        if self.status == 200:
            self.waiting.extend(self.parser.feed(rest))
        else:
            self.body = self._read_body(rest)

    def _read_body(self, body):
        while len(body) < int(self.headers["content-length"]):
            body += self._receive()
        return json.loads(body)

    def _receive(self) -> bytes:
        data = self.socket.recv(65536)
        if not data:
            raise ConnectionError("the server closed the connection")
        return data

    def next(self) -> Sse:
        """The next message or comment. Raises TimeoutError, or ConnectionError at the end."""
        while not self.waiting:
            if self.parser.is_over:
                raise ConnectionError("the stream ended")
            self.waiting.extend(self.parser.feed(self._receive()))
        return self.waiting.pop(0)

    def events(self, number: int) -> list[Sse]:
        """The next so many events, without the comments between them."""
        found = []
        while len(found) < number:
            message = self.next()
            if message.comment is None:
                found.append(message)
        return found

    def until_closed(self) -> list[Sse]:
        """All events up to the end of the connection."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2**20)
        found = []
        try:
            while True:
                message = self.next()
                if message.comment is None:
                    found.append(message)
        except ConnectionError:
            return found

    def close(self):
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()
