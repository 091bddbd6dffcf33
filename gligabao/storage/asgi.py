"""Serves the signed addresses of local storage: `PUT`, `GET` and `HEAD /artifacts/<token>`.

Stands in front of Django, which would keep a whole body on disk before any view could look at
its signature. Answers with the status codes and XML error names of S3.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, BinaryIO
from xml.sax.saxutils import escape

from django.utils.http import content_disposition_header

from gligabao.errors import Conflict, NotFound, StorageError
from gligabao.storage.local import (
    CHUNK_BYTES,
    URL_PATH,
    AddressExpired,
    AddressRefused,
    Grant,
    LocalStorage,
    read_token,
)

logger = logging.getLogger(__name__)

Scope = dict[str, Any]
Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]

RANGE = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})", re.ASCII)


class ClientGone(Exception):
    """Nobody is left to answer."""


class Refused(Exception):
    """An answer of S3's kind that is not a success.

    A sender that we once gave an address to is heard out after it: cut off in the middle of its
    body it would meet a broken connection, try again, and never learn why. Strangers are not.
    """

    def __init__(
        self,
        status: int,
        code: str,
        message: str,
        *,
        headers: dict[str, str] | None = None,
        is_stranger: bool = False,
    ) -> None:
        super().__init__(message)
        self.is_stranger = is_stranger
        self.status = status
        self.code = code
        self.message = message
        self.headers = headers or {}


@dataclass
class Answer:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    file: BinaryIO | None = None  # sent from where it stands, `length` bytes
    length: int = 0
    hears_out: bool = False  # reads the rest of the request's body before the connection ends


class Body:
    """The body of one request, read once."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._has_more = True

    async def chunks(self) -> AsyncIterator[bytearray]:
        """What was not read yet, in pieces worth a thread's while. Raises ClientGone."""
        waiting = bytearray()
        while self._has_more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise ClientGone
            waiting += message.get("body", b"")
            self._has_more = message.get("more_body", False)
            if len(waiting) >= CHUNK_BYTES or (waiting and not self._has_more):
                yield waiting
                waiting = bytearray()

    async def discard(self) -> None:
        async for _ in self.chunks():
            pass

    async def wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


async def artifact_app(scope: Scope, receive: Receive, send: Send) -> None:
    """The ASGI application for every path below `/artifacts/`."""
    token = scope["path"].removeprefix(URL_PATH)
    method = scope["method"]
    body = Body(receive)
    try:
        answer = await _answer(method, token, _headers(scope), body)
    except ClientGone:
        return
    except Refused as refused:
        answer = _refusal(refused)
    except StorageError as error:
        logger.error("Artifact %s: %s", method, error.message)
        answer = _refusal(Refused(500, "InternalError", error.message))
    await _send_answer(answer, body, send, with_body=method != "HEAD")


async def _answer(method: str, token: str, headers: dict[str, str], body: Body) -> Answer:
    storage = LocalStorage.from_settings()
    if method == "PUT":
        return await _put(storage, _grant(token, "PUT"), headers, body)
    if method in ("GET", "HEAD"):
        return _get(storage, _grant(token, "GET"), headers)
    raise Refused(
        405,
        "MethodNotAllowed",
        "The specified method is not allowed.",
        headers={"Allow": "GET, HEAD, PUT"},
        is_stranger=True,
    )


def _grant(token: str, method: str) -> Grant:
    try:
        return read_token(token, method=method)
    except AddressExpired as error:
        raise Refused(403, "AccessDenied", "Request has expired") from error
    except AddressRefused as error:
        raise Refused(
            403,
            "SignatureDoesNotMatch",
            "The signature does not fit this request.",
            is_stranger=True,
        ) from error


# --- PUT -------------------------------------------------------------------------------------


async def _put(storage: LocalStorage, grant: Grant, headers: dict[str, str], body: Body) -> Answer:
    _check_length(headers.get("content-length"), grant)
    if not await asyncio.to_thread(storage.has_room_for, grant.size_bytes):
        raise Refused(507, "InsufficientStorage", "The disk has no room for this file.")
    with storage.draft(grant.key) as draft:
        async for chunk in body.chunks():
            if draft.size_bytes + len(chunk) > grant.size_bytes:
                raise Refused(400, "EntityTooLarge", "The body is longer than was agreed.")
            await asyncio.to_thread(draft.write, chunk)
        if draft.size_bytes < grant.size_bytes:
            raise Refused(400, "IncompleteBody", "The body is shorter than was agreed.")
        if draft.sha256 != grant.sha256:
            raise Refused(400, "BadDigest", "The SHA-256 of the body is not the agreed one.")
        try:
            await asyncio.to_thread(draft.publish)
        except Conflict as error:
            raise Refused(412, "PreconditionFailed", error.message) from error
    return Answer(200, {"ETag": f'"{grant.sha256}"'})


def _check_length(value: str | None, grant: Grant) -> None:
    if value is None:
        raise Refused(411, "MissingContentLength", "The Content-Length header is required.")
    if not value.isascii() or not value.isdigit():
        raise Refused(400, "InvalidArgument", "The Content-Length header is not a number.")
    if int(value[:19]) > grant.size_bytes:
        raise Refused(
            400, "EntityTooLarge", f"{value[:19]} bytes are more than {grant.size_bytes}."
        )
    if int(value) < grant.size_bytes:
        raise Refused(400, "IncompleteBody", f"{value} bytes are fewer than {grant.size_bytes}.")


# --- GET and HEAD ----------------------------------------------------------------------------


def _get(storage: LocalStorage, grant: Grant, headers: dict[str, str]) -> Answer:
    try:
        file = storage.open(grant.key)
    except NotFound as error:
        raise Refused(404, "NoSuchKey", error.message) from error
    size = os.fstat(file.fileno()).st_size
    name = "".join(letter for letter in grant.filename if letter.isprintable())
    answer_headers = {
        "Content-Type": "application/octet-stream",
        # Never shown on our own origin, whatever the bytes are.
        "Content-Disposition": content_disposition_header(True, name) or "attachment",
        "X-Content-Type-Options": "nosniff",
        "Accept-Ranges": "bytes",
        "Cache-Control": "private, no-store",
    }
    try:
        # Objects never change, but without an ETag nobody can know: If-Range gets the whole.
        wanted = None if "if-range" in headers else _range(headers.get("range"), size)
    except Refused:
        file.close()
        raise
    if wanted is None:
        return Answer(200, answer_headers, file=file, length=size)
    first, last = wanted
    file.seek(first)
    answer_headers["Content-Range"] = f"bytes {first}-{last}/{size}"
    return Answer(206, answer_headers, file=file, length=last - first + 1)


def _range(value: str | None, size: int) -> tuple[int, int] | None:
    """First and last byte that are asked for; None for the whole. Several ranges are not split."""
    match = RANGE.fullmatch(value or "")
    if not match or not any(match.groups()):
        return None
    if not match[1]:
        first, last = max(0, size - int(match[2])), size - 1
    else:
        first = int(match[1])
        last = min(int(match[2]), size - 1) if match[2] else size - 1
        if match[2] and int(match[2]) < first:
            return None
    if first > last:
        raise Refused(
            416,
            "InvalidRange",
            "The requested range is not satisfiable",
            headers={"Content-Range": f"bytes */{size}"},
        )
    return first, last


# --- Answers ---------------------------------------------------------------------------------


def _headers(scope: Scope) -> dict[str, str]:
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}


def _refusal(refused: Refused) -> Answer:
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{refused.code}</Code><Message>{escape(refused.message)}</Message></Error>"
    )
    headers = {"Content-Type": "application/xml", "X-Content-Type-Options": "nosniff"}
    return Answer(
        refused.status,
        headers | refused.headers,
        body=body.encode(),
        hears_out=not refused.is_stranger,
    )


async def _send_answer(answer: Answer, body: Body, send: Send, *, with_body: bool) -> None:
    try:
        length = answer.length if answer.file else len(answer.body)
        headers = {**answer.headers, "Content-Length": str(length)}
        await send(
            {
                "type": "http.response.start",
                "status": answer.status,
                "headers": [(k.lower().encode(), v.encode("latin-1")) for k, v in headers.items()],
            }
        )
        if answer.file and with_body:
            await _send_file(answer.file, answer.length, body, send)
        elif with_body:
            await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        if answer.hears_out:
            await body.discard()
        await send({"type": "http.response.body", "body": b""})
    except ClientGone:
        return
    finally:
        if answer.file:
            answer.file.close()


async def _send_file(file: BinaryIO, length: int, body: Body, send: Send) -> None:
    """Send so many bytes, for as long as somebody takes them."""
    gone = asyncio.ensure_future(body.wait_until_gone())
    try:
        while length > 0 and not gone.done():
            chunk = await asyncio.to_thread(file.read, min(CHUNK_BYTES, length))
            if not chunk:
                raise StorageError("A stored file became shorter while it was sent.")
            length -= len(chunk)
            await send({"type": "http.response.body", "body": chunk, "more_body": True})
    finally:
        gone.cancel()
