"""Tells the streams that a job has new events. Losing a ring does no harm: the tailers look
by themselves every second, and the rows are the log.

PostgreSQL rings by NOTIFY inside the transaction. Redis, when configured, is rung after the
commit. SQLite needs no ring: its `data_version` changes with every commit.
"""

from __future__ import annotations

import logging
from functools import cache, partial

import redis
from django.conf import settings
from django.db import connections, transaction

from gligabao.databases import name_of

logger = logging.getLogger(__name__)

CHANNEL = "gligabao_events"
RING_DEADLINE_SECONDS = 0.5


def ring_on_commit(run_id: int, db: str) -> None:
    """Ring for a job's new events as soon as the open transaction is committed."""
    if connections[db].vendor == "postgresql":
        with connections[db].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(run_id)])
    if settings.REDIS_URL:
        transaction.on_commit(partial(_ring_redis, run_id, db), using=db)


def _ring_redis(run_id: int, db: str) -> None:
    try:
        _redis().publish(f"{CHANNEL}:{name_of(db)}", str(run_id))
    except redis.RedisError as error:
        logger.warning("Redis was not rung (%s); the streams look by themselves.", error)


@cache
def _redis() -> redis.Redis:
    return redis.Redis.from_url(
        settings.REDIS_URL,
        socket_timeout=RING_DEADLINE_SECONDS,
        socket_connect_timeout=RING_DEADLINE_SECONDS,
    )
