"""Finds provider runs of ours that should be over, and ends them.

Looked up in every database: a run whose job is over, or that no database knows. Runs of other
installations are never touched.
"""

from __future__ import annotations

import logging
import time

from django.db import DatabaseError

from gligabao.databases import database_aliases
from gligabao.errors import GligabaoError
from training.events import append_server_event
from training.models import TrainingJob
from training.providers import PROVIDERS, get_provider
from training.providers.base import Phase, Provider

logger = logging.getLogger(__name__)

EVERY_SECONDS = 10
_last_pass = {"at": -float(EVERY_SECONDS)}


def reconcile_if_due() -> None:
    """Reconcile at most once in 10 s per process."""
    if time.monotonic() - _last_pass["at"] >= EVERY_SECONDS:
        _last_pass["at"] = time.monotonic()
        reconcile()


def reconcile() -> None:
    """End the live runs of this installation that should be over."""
    for name in PROVIDERS:
        provider = get_provider(name)
        try:
            for job_id, provider_job_id in provider.live_runs():
                try:
                    _check_run(provider, job_id, provider_job_id)
                except DatabaseError as error:
                    logger.warning("The run %s was not reconciled: %s", provider_job_id, error)
        except GligabaoError as error:
            logger.warning("Provider %s was not reconciled: %s", name, error.message)


def _check_run(provider: Provider, job_id: str, provider_job_id: str) -> None:
    for db in database_aliases():
        job = TrainingJob.objects.using(db).filter(job_id=job_id).first()
        if job is None:
            continue
        # Asked again: when the list was made, the job may have been about to end by itself.
        if job.is_final and provider.poll(provider_job_id).phase in (Phase.WAITING, Phase.RUNNING):
            provider.stop(provider_job_id, force=True)
            message = f"The run {provider_job_id} was still alive after the end. It was stopped."
            append_server_event(job.pk, "warning", db=db, code="orphan_stopped", message=message)
            logger.warning("Job %s: %s", job_id, message)
        return
    provider.stop(provider_job_id, force=True)
    logger.warning("The run %s belongs to no job here. It was stopped.", provider_job_id)
