"""System checks: the catalog and the settings that name its entries."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.checks import Error, register

from gligabao.errors import InvalidRequest
from training.catalog import CatalogError, base_model, base_models
from training.providers import PROVIDERS


@register()
def check_catalog(**kwargs: Any) -> list[Error]:
    try:
        base_models()
    except CatalogError as error:
        return [Error(str(error), id="training.E001")]
    if settings.DEFAULT_MODEL:
        try:
            base_model(settings.DEFAULT_MODEL)
        except InvalidRequest as error:
            return [Error(f"GLIGABAO_DEFAULT_MODEL: {error.message}", id="training.E002")]
    return []


@register()
def check_provider(**kwargs: Any) -> list[Error]:
    if settings.DEFAULT_PROVIDER not in PROVIDERS:
        return [
            Error(
                f"GLIGABAO_PROVIDER={settings.DEFAULT_PROVIDER!r} is not a provider. "
                f"Known: {', '.join(PROVIDERS)}.",
                id="training.E003",
            )
        ]
    return []
