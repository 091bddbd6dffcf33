"""Leases: who follows a job right now. Held in the row for 10 s, renewed while work goes on."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from django.db import DatabaseError, close_old_connections
from django.utils import timezone

from gligabao.databases import write_transaction
from training.models import TrainingJob
from training.models.job import LEASE_LIFETIME

logger = logging.getLogger(__name__)

RENEW_SECONDS = LEASE_LIFETIME.total_seconds() / 3


def renew(db: str, run_id: int, owner: str) -> bool:
    """Take another 10 s. False: the lease is somebody else's by now."""
    with write_transaction(db):
        mine = TrainingJob.objects.using(db).filter(pk=run_id, lease_owner=owner)
        return bool(mine.update(lease_until=timezone.now() + LEASE_LIFETIME))


@contextmanager
def held(db: str, run_id: int, owner: str) -> Iterator[None]:
    """Renew the lease from a thread of its own until the block ends."""
    done = threading.Event()

    def keep() -> None:
        while not done.wait(RENEW_SECONDS):
            try:
                if not renew(db, run_id, owner):
                    return
            except DatabaseError as error:
                logger.warning("The lease of run %s was not renewed: %s", run_id, error)
            finally:
                close_old_connections()  # one for the next time, and none left to a dead thread

    thread = threading.Thread(target=keep, name=f"lease-{db}-{run_id}", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
