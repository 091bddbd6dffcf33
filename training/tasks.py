"""Celery tasks: one runner call each. Every task can run twice, late, or not at all.

The sweep, once a second, finds in the rows whatever is due. The tasks that services send only
make it sooner.
"""

from __future__ import annotations

import logging
import time
from functools import partial
from typing import Any

from celery import Task, shared_task
from django.db import DatabaseError, transaction
from kombu.exceptions import OperationalError

from gligabao.broker import check_broker
from gligabao.databases import database_aliases, name_of
from gligabao.errors import BrokerUnreachable
from training.runner import count_tokens, follow, reconcile, submit

logger = logging.getLogger(__name__)

AWAY_SECONDS = 10
_away_until: dict[str, float] = {}  # databases that failed; monotonic seconds


def send_on_commit(task: Task, *, db: str) -> None:
    """Send a task for this database once the open transaction is committed."""
    transaction.on_commit(partial(_send, task, db), using=db)


def _send(task: Task, *args: Any) -> None:
    """Send at once, without retries: a broker that is down is made up for by the sweep.

    It is pinged first. Sending takes seconds to find out that nobody is there, and we are in a
    request and, on SQLite, hold up all other writers of this process.
    """
    try:
        check_broker()
        task.apply_async(args=args, retry=False, expires=60)
    except (BrokerUnreachable, OperationalError, OSError) as error:
        logger.warning("%s was not sent (%s); the sweep will do it.", task.name, error)


@shared_task(name="training.sweep", ignore_result=True)
def sweep() -> None:
    """Submit and follow whatever is due, in every database; one that is away stops no other."""
    for db in _databases_in_turn():
        try:
            submit.submit_due(db)
            _follow_due(db)
            if count_tokens.is_anything_due(db):
                count_due.apply_async(args=(db,), expires=5, retry=False)
        except DatabaseError as error:
            _away_until[db] = time.monotonic() + AWAY_SECONDS
            logger.warning("The database %s was not swept: %s", name_of(db), error)
    reconcile.reconcile_if_due()


def _databases_in_turn() -> list[str]:
    """All databases but those that just failed, another one first each second.

    In turn, so that a queue in one does not take every free slot; without those that failed,
    since waiting for them at each tick would fill the worker's threads.
    """
    now = time.monotonic()
    aliases = [db for db in database_aliases() if _away_until.get(db, now) <= now]
    first = int(time.time()) % len(aliases) if aliases else 0
    return aliases[first:] + aliases[:first]


@shared_task(name="training.submit_due")
def submit_due(db: str) -> None:
    submit.submit_due(db)


@shared_task(name="training.follow_due")
def follow_due(db: str) -> None:
    _follow_due(db)


@shared_task(name="training.follow_run")
def follow_run(db: str, run_id: int, lease: str) -> None:
    follow.follow_run(db, run_id, lease)


@shared_task(name="training.count_due")
def count_due(db: str) -> None:
    count_tokens.count_due(db)


def _follow_due(db: str) -> None:
    for run_id, lease in follow.claim_due(db):
        # Later than the lease lasts, another worker has the job.
        follow_run.apply_async(args=(db, run_id, lease), expires=8, retry=False)
