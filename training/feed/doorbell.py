"""Tells the streams that a job has new events, and waits to be told.

Losing a ring does no harm: whoever waits looks by itself every second, and the rows are the log.

PostgreSQL rings by NOTIFY inside the transaction. Redis, when configured, is rung after the
commit. SQLite needs no ring: its `data_version` changes with every commit.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache, partial
from typing import Protocol

import psycopg
import redis
from django.conf import settings
from django.db import connections, transaction

from gligabao.databases import name_of

logger = logging.getLogger(__name__)

CHANNEL = "gligabao_events"
RING_DEADLINE_SECONDS = 0.5
POLL_SECONDS = 0.05  # of SQLite; one look costs a few microseconds
RETRY_SECONDS = 1.0  # before a bell that is out of order is tried again


def ring_on_commit(run_id: int, db: str) -> None:
    """Ring for a job's new events as soon as the open transaction is committed."""
    if connections[db].vendor == "postgresql":
        with connections[db].cursor() as cursor:
            cursor.execute("SELECT pg_notify(%s, %s)", [CHANNEL, str(run_id)])
    if settings.REDIS_URL:
        transaction.on_commit(partial(_ring_redis, run_id, db), using=db)


def _ring_redis(run_id: int, db: str) -> None:
    try:
        _redis(settings.REDIS_URL).publish(_redis_channel(db), str(run_id))
    except redis.RedisError as error:
        logger.warning("Redis was not rung (%s); the streams look by themselves.", error)


@cache
def _redis(url: str) -> redis.Redis:
    return redis.Redis.from_url(
        url,
        socket_timeout=RING_DEADLINE_SECONDS,
        socket_connect_timeout=RING_DEADLINE_SECONDS,
    )


def _redis_channel(db: str) -> str:
    return f"{CHANNEL}:{name_of(db)}"


class Bell(Protocol):
    """What is heard of a database's new events, in the thread that made it."""

    def wait(self, seconds: float) -> None:
        """Return at the next ring, or without one after this time."""
        ...

    def close(self) -> None: ...


@contextmanager
def open_bell(db: str) -> Iterator[Bell]:
    """Listen for new events of a database.

    Not only for the events of one job: whoever waits looks for what it needs. Rings between
    two waits are not lost.
    """
    bell = _bell(db)
    try:
        yield bell
    finally:
        bell.close()


def _bell(db: str) -> Bell:
    if connections[db].vendor == "sqlite":
        return _SqliteBell(db)
    if settings.REDIS_URL:
        return _RedisBell(db)
    return _PostgresBell(db)


class _SqliteBell:
    """Looks whether another connection has committed anything."""

    def __init__(self, db: str) -> None:
        self._db = db
        self._version: int | None = None

    def wait(self, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (version := self._data_version()) == self._version:
            left = deadline - time.monotonic()
            if left <= 0:
                return
            time.sleep(min(POLL_SECONDS, left))
        self._version = version

    def _data_version(self) -> int:
        with connections[self._db].cursor() as cursor:
            cursor.execute("PRAGMA data_version")
            return cursor.fetchone()[0]

    def close(self) -> None:
        pass  # the thread's own connection, which it closes itself


class _PostgresBell:
    """LISTEN on a connection of its own, outside the pool: it is held for as long as we listen."""

    def __init__(self, db: str) -> None:
        self._db = db
        self._connection: psycopg.Connection | None = None

    def wait(self, seconds: float) -> None:
        try:
            if self._connection is None:
                # A ring before this moment was not heard, so the first wait is none.
                self._connection = self._listen()
                return
            for _ in self._connection.notifies(timeout=seconds, stop_after=1):
                pass
        except psycopg.Error as error:
            logger.warning("PostgreSQL cannot be listened to (%s); looking by itself.", error)
            self.close()
            time.sleep(min(seconds, RETRY_SECONDS))

    def _listen(self) -> psycopg.Connection:
        parameters = connections[self._db].get_connection_params()
        connection = psycopg.connect(**parameters, autocommit=True)
        connection.execute(f"LISTEN {CHANNEL}")
        return connection

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None


class _RedisBell:
    """Subscribes; a Redis that is away is a bell that only the clock rings."""

    def __init__(self, db: str) -> None:
        self._channel = _redis_channel(db)
        self._subscription: redis.client.PubSub | None = None

    def wait(self, seconds: float) -> None:
        try:
            if self._subscription is None:
                self._subscription = self._subscribe()
                return
            if self._subscription.get_message(timeout=seconds) is not None:
                self._drop_the_rest()
        except redis.RedisError as error:
            logger.warning("Redis cannot be listened to (%s); looking by itself.", error)
            self.close()
            time.sleep(min(seconds, RETRY_SECONDS))

    def _subscribe(self) -> redis.client.PubSub:
        subscription = _listening_redis(settings.REDIS_URL).pubsub()
        subscription.subscribe(self._channel)
        return subscription

    def _drop_the_rest(self) -> None:
        """Rings that came together need one look."""
        while self._subscription.get_message(timeout=0) is not None:
            pass

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
            self._subscription = None


@cache
def _listening_redis(url: str) -> redis.Redis:
    """As the ringing one, but able to wait for a ring longer than a ring may take."""
    return redis.Redis.from_url(url, socket_timeout=5, socket_connect_timeout=RING_DEADLINE_SECONDS)
