"""Reads multipart/form-data as it arrives, part by part.

Django's own parser cleans file names before anybody sees them, takes a body that stops early for
a whole one, and ends a part at the boundary's text wherever it stands. Here the name is kept as
sent, and a body that is not exactly right is refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NoReturn
from urllib.parse import unquote_to_bytes

from gligabao.errors import InvalidRequest

CHUNK_BYTES = 2**18
MAX_HEADER_BYTES = 8 * 1024
MAX_FIELD_BYTES = 64 * 1024
MAX_PARTS = 20
PLAIN_ENCODINGS = frozenset({"binary", "8bit", "7bit"})
_BOUNDARY = re.compile(r"""boundary=(?:"([^"\r\n]{1,70})"|([^\s;"]{1,70}))""", re.IGNORECASE)
_PARAMETER = re.compile(r';\s*([A-Za-z*]+)=(?:"((?:[^"\\]|\\.)*)"|([^;]*))', re.DOTALL)


@dataclass
class Part:
    """One part; its content must be read before the next part is asked for."""

    name: str
    filename: str | None  # as sent; None for a plain field
    content: PartStream

    def text(self) -> str:
        """The value of a plain field. Raises InvalidRequest."""
        value = self.content.read(MAX_FIELD_BYTES + 1)
        if len(value) > MAX_FIELD_BYTES:
            _refuse(f"The field {self.name[:60]!r} is longer than {MAX_FIELD_BYTES} bytes.")
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest(
                f"The field {self.name[:60]!r} is not UTF-8.", code="not_utf8"
            ) from error


def parts_of(body: BinaryIO, content_type: str) -> Iterator[Part]:
    """The parts of a body in order. Raises InvalidRequest (`broken_multipart`, `bad_name`)."""
    found = _BOUNDARY.search(content_type)
    if not found:
        _refuse("The Content-Type names no boundary.")
    reader = _Reader(body, (found[1] or found[2]).encode("ascii", errors="replace"))
    reader.skip_preamble()
    for _ in range(MAX_PARTS):
        if reader.is_at_end():
            return
        name, filename = _disposition(reader.headers())
        stream = PartStream(reader)
        yield Part(name, filename, stream)
        stream.drain()
    _refuse(f"More than {MAX_PARTS} parts.")


class PartStream:
    """The content of one part, as a file to read."""

    def __init__(self, reader: _Reader) -> None:
        self._reader = reader
        self._buffer = b""
        self._is_done = False

    def read(self, size: int) -> bytes:
        while len(self._buffer) < size and not self._is_done:
            chunk = self._reader.chunk()
            self._is_done = chunk is None
            self._buffer += chunk or b""
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken

    def drain(self) -> None:
        while self.read(CHUNK_BYTES):
            pass


class _Reader:
    """A window on the body that never holds more than a chunk and a boundary."""

    def __init__(self, body: BinaryIO, boundary: bytes) -> None:
        self._body = body
        self._window = b"\r\n"  # so that the first boundary is found like all others
        self._delimiter = b"\r\n--" + boundary

    def skip_preamble(self) -> None:
        while self.chunk() is not None:
            pass

    def is_at_end(self) -> bool:
        """After a boundary: whether it was the last. Raises InvalidRequest for anything else."""
        self._fill(2)
        ending, self._window = self._window[:2], self._window[2:]
        if ending not in (b"\r\n", b"--"):
            _refuse("A boundary is followed by neither a part nor the end.")
        return ending == b"--"

    def headers(self) -> bytes:
        while b"\r\n\r\n" not in self._window:
            if len(self._window) > MAX_HEADER_BYTES or not self._more():
                _refuse("The header of a part is too long or has no end.")
        headers, _, self._window = self._window.partition(b"\r\n\r\n")
        return headers

    def chunk(self) -> bytes | None:
        """More of the content before the next boundary; None once that was passed."""
        while True:
            place = self._window.find(self._delimiter)
            if place > 0:
                taken, self._window = self._window[:place], self._window[place:]
                return taken
            if place == 0:
                self._window = self._window[len(self._delimiter) :]
                return None
            keep = len(self._delimiter) - 1  # a boundary may be cut at the end of the window
            if len(self._window) > keep:
                taken, self._window = self._window[:-keep], self._window[-keep:]
                return taken
            if not self._more():
                _refuse("The body ends before its last boundary; the upload may be cut off.")

    def _fill(self, size: int) -> None:
        while len(self._window) < size and self._more():
            pass

    def _more(self) -> bool:
        data = self._body.read(CHUNK_BYTES)
        self._window += data
        return bool(data)


def _disposition(headers: bytes) -> tuple[str, str | None]:
    """Field name and file name of a part. Raises InvalidRequest."""
    values = _headers(headers)
    encoding = values.get("content-transfer-encoding", "binary").lower()
    if encoding not in PLAIN_ENCODINGS:
        _refuse(f"Content-Transfer-Encoding {encoding[:40]!r} is not supported.")
    parameters = _parameters(values.get("content-disposition", ""))
    if not parameters.get("name"):
        _refuse("A part has no name in its Content-Disposition.")
    return parameters["name"], parameters.get("filename")


def _headers(headers: bytes) -> dict[str, str]:
    try:
        lines = headers.decode("utf-8").split("\r\n")
    except UnicodeDecodeError as error:
        raise InvalidRequest("The file name is not UTF-8.", code="bad_name") from error
    pairs = (line.partition(":") for line in lines)
    return {key.strip().lower(): value.strip() for key, _, value in pairs}


def _parameters(value: str) -> dict[str, str]:
    found = {}
    for name, quoted, plain in _PARAMETER.findall(value):
        # Some clients escape a quote and a backslash; others send a backslash as it is.
        found[name.lower()] = quoted.replace('\\"', '"').replace("\\\\", "\\") or plain.strip()
    if "filename*" in found:  # RFC 2231, as some clients send names that are not ASCII
        encoded = found["filename*"].split("'", 2)[-1]
        try:
            found["filename"] = unquote_to_bytes(encoded).decode("utf-8")
        except UnicodeDecodeError as error:
            raise InvalidRequest("The file name is not UTF-8.", code="bad_name") from error
    return found


def _refuse(reason: str) -> NoReturn:
    raise InvalidRequest(reason, code="broken_multipart")
