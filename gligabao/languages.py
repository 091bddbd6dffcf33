"""The language of an answer: pages in that of the reader, the API in English."""

from __future__ import annotations

from django.http import HttpRequest
from django.middleware.locale import LocaleMiddleware
from django.utils import translation

API = "/v1/"


class LanguageMiddleware(LocaleMiddleware):
    """As Django's own (the reader's choice, else what the browser asks for), not for programs."""

    def process_request(self, request: HttpRequest) -> None:
        if not request.path_info.startswith(API):
            super().process_request(request)
            return
        translation.activate("en")
        request.LANGUAGE_CODE = "en"
