"""The training app: jobs, events, trained models."""

from __future__ import annotations

from django.apps import AppConfig


class TrainingConfig(AppConfig):
    name = "training"
    verbose_name = "Training"

    def ready(self) -> None:
        from datasets.services import register_use_check
        from training import checks  # noqa: F401  registers the system checks
        from training.services.jobs import is_dataset_in_use

        register_use_check(is_dataset_in_use)
