"""The gate before Django: it looks at every body first.

Django keeps a whole body on disk before any view can say that it is not wanted. So the gate
checks who uploads a dataset before a byte of it is read, holds all other bodies to their limit,
and hands artifacts, which are signed, to the storage.
"""

from __future__ import annotations

import asyncio
import io
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import urlencode

from django.conf import settings
from django.contrib.auth.middleware import AuthenticationMiddleware
from django.contrib.sessions.middleware import SessionMiddleware
from django.core.handlers.asgi import ASGIRequest
from django.db import close_old_connections
from django.http import HttpRequest, HttpResponse
from django.shortcuts import resolve_url
from rest_framework.response import Response

from datasets.api.views import DatasetsView
from gligabao.access import TRAINER, has_role
from gligabao.errors import GligabaoError, InvalidRequest, TooLarge
from gligabao.rest import dumps
from gligabao.storage.asgi import artifact_app
from gligabao.storage.local import URL_PATH

Message = dict[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

UPLOAD_PATH = "/v1/gb/training/datasets"
UPLOAD_PAGE = "/console/datasets/upload/"
FORM_BYTES = 2**20  # what a form may add to the file in it
# Of a refused body: so much is heard out, because a sender that is cut off in the middle meets a
# broken connection instead of our answer.
HEARD_OUT_BYTES = 16 * 2**20

HEADERS_KEPT = frozenset({"WWW-Authenticate", "Allow", "Location"})  # of a view's refusal

Scope = dict[str, Any]
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def gate(django_app: App) -> App:
    """The application that lets through to Django only what Django should read."""

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await django_app(scope, receive, send)
        elif scope["path"].startswith(URL_PATH):
            await artifact_app(scope, receive, send)
        elif (refusal := await _refusal(scope)) is not None:
            await _answer(refusal, receive, send)
        else:
            await _within_limit(django_app, scope, receive, send)

    return application


async def _refusal(scope: Scope) -> Response | None:
    """The answer to a request whose body is not wanted, None if it is."""
    try:
        _check_length(scope)
    except GligabaoError as error:
        return _response(error)
    if _is_upload(scope):
        return await asyncio.to_thread(_refusal_of_sender, scope)
    return None


def _is_upload(scope: Scope) -> bool:
    return scope["method"] == "POST" and scope["path"] in (UPLOAD_PATH, UPLOAD_PAGE)


def _limit(scope: Scope) -> int:
    if _is_upload(scope):
        return settings.MAX_UPLOAD_BYTES + FORM_BYTES
    return settings.DATA_UPLOAD_MAX_MEMORY_SIZE


def _check_length(scope: Scope) -> None:
    length = dict(scope["headers"]).get(b"content-length", b"0")
    if not length.isdigit():
        raise InvalidRequest("The Content-Length header is not a number.", code="invalid_header")
    if int(length[:19]) > _limit(scope):
        raise _too_large(scope)


def _too_large(scope: Scope) -> TooLarge:
    return TooLarge(f"The body is larger than {_limit(scope)} bytes.")


def _refusal_of_sender(scope: Scope) -> Response | None:
    """Ask the view itself, on a request without its body, whether it would take this one."""
    close_old_connections()
    try:
        request = ASGIRequest(scope, io.BytesIO())
        SessionMiddleware(_nothing).process_request(request)
        AuthenticationMiddleware(_nothing).process_request(request)
        if scope["path"] == UPLOAD_PAGE:
            return _refusal_of_visitor(request)
        view = DatasetsView()
        view.setup(request)
        view.request = view.initialize_request(request)
        view.headers = view.default_response_headers
        try:
            view.initial(view.request)
        except Exception as error:
            return view.handle_exception(error)  # raises what is no refusal
        return None
    finally:
        close_old_connections()


def _refusal_of_visitor(request: HttpRequest) -> Response | None:
    """Who may not upload is sent to the login, as by the page itself."""
    if has_role(request.user, TRAINER):
        return None
    login = f"{resolve_url(settings.LOGIN_URL)}?{urlencode({'next': request.get_full_path()})}"
    data = {"error": "Log in as a trainer to upload.", "code": "not_authenticated"}
    return Response(data, status=303, headers={"Location": login})


def _nothing(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


async def _within_limit(django_app: App, scope: Scope, receive: Receive, send: Send) -> None:
    """Hand a request on, and count its body, which may come without a length."""
    size = 0
    has_started = False

    async def counted_receive() -> Message:
        nonlocal size
        message = await receive()
        size += len(message.get("body", b""))
        # To Django it looks as if the client went away, so that it drops what it has.
        return message if size <= _limit(scope) else {"type": "http.disconnect"}

    async def noticing_send(message: Message) -> None:
        nonlocal has_started
        has_started = True
        await send(message)

    await django_app(_with_length(scope), counted_receive, noticing_send)
    if size > _limit(scope) and not has_started:
        await _answer(_response(_too_large(scope)), receive, send)


def _with_length(scope: Scope) -> Scope:
    """Say how long a chunked body can be at most: REST framework takes one without a length for
    no body at all, and would start a default job for a request that asked for something else."""
    names = {name for name, _ in scope["headers"]}
    if b"transfer-encoding" not in names or b"content-length" in names:
        return scope
    length = (b"content-length", str(_limit(scope)).encode())
    return scope | {"headers": [*scope["headers"], length]}


def _response(error: GligabaoError) -> Response:
    return Response(error.as_json(), status=error.http_status)


async def _answer(response: Response, receive: Receive, send: Send) -> None:
    """Send a refusal, hear the sender out for a while, and end the connection."""
    body = dumps(response.data)
    headers = {
        "Content-Type": "application/json",
        "Content-Length": str(len(body)),
        "Connection": "close",
        "X-Content-Type-Options": "nosniff",
        **{name: response.headers[name] for name in response.headers if name in HEADERS_KEPT},
    }
    await send(
        {
            "type": "http.response.start",
            "status": HTTPStatus(response.status_code),
            "headers": [(name.lower().encode(), v.encode()) for name, v in headers.items()],
        }
    )
    await send({"type": "http.response.body", "body": body, "more_body": True})
    heard = 0
    while heard <= HEARD_OUT_BYTES:
        message = await receive()
        if not message.get("more_body", False):
            break
        heard += len(message.get("body", b""))
    await send({"type": "http.response.body", "body": b""})
