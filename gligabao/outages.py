"""A page that says so, while a database is away. The API has its own answer (gligabao/rest.py)."""

from __future__ import annotations

import logging

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

logger = logging.getLogger(__name__)

RETRY_SECONDS = 5


class OutageMiddleware(MiddlewareMixin):
    """Turns a database's refusal in a view into a 503."""

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, OperationalError | InterfaceError):
            return None
        logger.warning("%s could not be answered: %s", request.path, error)
        answer = render(None, "503.html", status=503)  # without a context that asks a database
        answer.headers["Retry-After"] = str(RETRY_SECONDS)
        return answer
