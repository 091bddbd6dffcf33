"""The datasets app."""

from __future__ import annotations

from django.apps import AppConfig
from django.conf import settings


class DatasetsConfig(AppConfig):
    name = "datasets"
    verbose_name = "Training data"

    def ready(self) -> None:
        # Django refuses to start without the folder where it spools uploads.
        settings.TEMP_DIR.mkdir(parents=True, exist_ok=True)
