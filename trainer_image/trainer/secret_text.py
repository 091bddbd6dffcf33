"""Keeps secrets out of every text that leaves the process."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

REMOVED = "[removed]"
MIN_SECRET_LENGTH = 8  # shorter strings would hit ordinary words

# What a secret looks like when nobody told us its value.
_SHAPES = (
    re.compile(r"(?i)(x-amz-[a-z-]+=)[^&\s\"'<>]+"),
    re.compile(r"(?i)(\bbearer\s+)[A-Za-z0-9._~+/=-]{8,}"),
    re.compile(r"()\bhf_[A-Za-z0-9]{6,}"),
)


class SecretText:
    """Remembers the secrets of a job and removes them from texts."""

    def __init__(self, *secrets: str) -> None:
        self._known: list[str] = []
        for secret in secrets:
            self.remember(secret)

    def remember(self, secret: str) -> None:
        """Remove this value from now on."""
        if len(secret) >= MIN_SECRET_LENGTH and secret not in self._known:
            self._known.append(secret)
            self._known.sort(key=len, reverse=True)  # a whole address before its query

    def remember_address(self, url: str) -> None:
        """Remove a signed address: its query, and the last part of its path if that is a token."""
        parts = urlsplit(url)
        self.remember(url)
        self.remember(parts.query)
        last = parts.path.rsplit("/", 1)[-1]
        if len(last) > 40:
            self.remember(last)

    def clean(self, text: str) -> str:
        """The text without any secret."""
        for secret in self._known:
            text = text.replace(secret, REMOVED)
        for shape in _SHAPES:
            text = shape.sub(rf"\g<1>{REMOVED}", text)
        return text
