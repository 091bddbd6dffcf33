"""Headers that keep hostile text in pages from running."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from django.http import HttpRequest, HttpResponse
from django.utils.decorators import sync_and_async_middleware

POLICY = "; ".join(
    (
        "default-src 'self'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "object-src 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
    )
)
HEADER = "Content-Security-Policy"


@sync_and_async_middleware
def ContentSecurityPolicyMiddleware(
    get_response: Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]],
) -> Callable:
    """Sends the policy with every answer that does not bring its own."""
    from asgiref.sync import iscoroutinefunction

    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponse:
            response = await get_response(request)
            response.headers.setdefault(HEADER, POLICY)
            return response
    else:

        def middleware(request: HttpRequest) -> HttpResponse:
            response = get_response(request)
            response.headers.setdefault(HEADER, POLICY)
            return response

    return middleware
