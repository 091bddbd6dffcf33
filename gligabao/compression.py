"""Compressed pages. Streams stay as they are: a proxy or browser would wait for their end."""

from __future__ import annotations

from django.http import HttpRequest, HttpResponseBase
from django.middleware.gzip import GZipMiddleware


class PageCompressionMiddleware(GZipMiddleware):
    """As Django's own (with its random padding against BREACH), for HTML and CSV alone."""

    types = ("text/html", "text/csv")

    def process_response(
        self, request: HttpRequest, response: HttpResponseBase
    ) -> HttpResponseBase:
        is_page = response.get("Content-Type", "").startswith(self.types)
        if response.streaming or not is_page:
            return response
        return super().process_response(request, response)
