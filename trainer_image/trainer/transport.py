"""HTTP by the standard library, with the three habits of urllib that hurt us turned off."""

from __future__ import annotations

import urllib.request
from http.client import HTTPMessage, HTTPResponse
from typing import IO, Any
from urllib.parse import urlsplit

LOOPBACK_HOSTS = frozenset({"127.0.0.1", "::1", "localhost"})


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """A redirect would carry the job token to another host."""

    def redirect_request(
        self,
        req: urllib.request.Request,
        fp: IO[bytes],
        code: int,
        msg: str,
        headers: HTTPMessage,
        newurl: str,
    ) -> None:
        return None


class _NoInventedContentType(urllib.request.BaseHandler):
    """urllib adds a form Content-Type to every body, which breaks addresses signed without one."""

    handler_order = 900  # after urllib's own handlers have added it

    def http_request(self, request: urllib.request.Request) -> urllib.request.Request:
        request.unredirected_hdrs.pop("Content-type", None)
        return request

    https_request = http_request


def open_request(request: urllib.request.Request, *, timeout: float) -> HTTPResponse:
    """Send the request with exactly its own headers.

    Raises urllib.error.HTTPError for every status but 2xx, OSError when nobody answers.
    """
    handlers: list[Any] = [_NoRedirect, _NoInventedContentType]
    if urlsplit(request.full_url).hostname in LOOPBACK_HOSTS:
        handlers.append(urllib.request.ProxyHandler({}))  # a proxy is never this machine
    return urllib.request.build_opener(*handlers).open(request, timeout=timeout)
