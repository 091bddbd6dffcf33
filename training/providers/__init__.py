"""Clouds behind one interface; no database here."""

from __future__ import annotations

from functools import cache

from gligabao.errors import InvalidRequest
from training.providers.base import Provider
from training.providers.local import LocalProvider

PROVIDERS = {"local": LocalProvider.from_settings}


@cache
def get_provider(name: str) -> Provider:
    """The provider of this name. Raises InvalidRequest."""
    if name not in PROVIDERS:
        raise InvalidRequest(
            f"No provider {name[:100]!r}. Known: {', '.join(PROVIDERS)}.", code="unknown_provider"
        )
    return PROVIDERS[name]()
