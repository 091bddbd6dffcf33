"""Several databases: the `?db=` of a request, the router, and the write lock for SQLite.

`standard` is the outside word for Django's `default`; it is translated here and nowhere else.
Services and tasks take the alias explicitly. The router serves only the views, through a
ContextVar that the middleware sets.
"""

from __future__ import annotations

import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from asgiref.sync import iscoroutinefunction
from django.conf import settings
from django.db import connections, transaction
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.decorators import sync_and_async_middleware

from gligabao.errors import NotFound

STANDARD = "standard"
# The apps whose rows live in the database of `?db=`; all others live in `default`.
ROUTED_APPS = frozenset({"training", "datasets"})

_current: ContextVar[str] = ContextVar("gligabao_database", default="default")
_write_locks: dict[str, threading.Lock] = {}
_write_locks_guard = threading.Lock()


def current_database() -> str:
    """The alias that the request in progress asked for; `default` outside of requests."""
    return _current.get()


def alias_of(name: str | None) -> str:
    """Translate an outside name to an alias. Raises NotFound."""
    if name is None or name == STANDARD:
        return "default"
    if name == "default" or name not in settings.DATABASES:
        raise NotFound(
            f"No database {name[:100]!r}. Configured: {', '.join(database_names())}.",
            code="unknown_database",
        )
    return name


def name_of(alias: str) -> str:
    """Translate an alias to its outside name."""
    return STANDARD if alias == "default" else alias


def database_aliases() -> list[str]:
    return list(settings.DATABASES)


def database_names() -> list[str]:
    return [name_of(alias) for alias in database_aliases()]


@contextmanager
def write_transaction(db: str) -> Iterator[None]:
    """A transaction that writes.

    SQLite's own wait for its write lock is unfair: at saturation a thread can lose for seconds.
    Inside one process a plain lock in front of it makes the threads take turns.
    """
    if connections[db].vendor != "sqlite" or connections[db].in_atomic_block:
        with transaction.atomic(using=db):
            yield
        return
    with _write_lock(db), transaction.atomic(using=db):
        yield


def _write_lock(db: str) -> threading.Lock:
    with _write_locks_guard:
        return _write_locks.setdefault(db, threading.Lock())


class Router:
    """Sends the rows of our apps to the database of the request."""

    def db_for_read(self, model: type, **hints: Any) -> str | None:
        return self._database_of(model, hints)

    def db_for_write(self, model: type, **hints: Any) -> str | None:
        return self._database_of(model, hints)

    def _database_of(self, model: Any, hints: dict[str, Any]) -> str:
        if model._meta.app_label not in ROUTED_APPS:
            return "default"
        # What belongs to a row stays in that row's database.
        instance = hints.get("instance")
        return (instance and instance._state.db) or current_database()

    def allow_relation(self, first: Any, second: Any, **hints: Any) -> bool | None:
        return None

    def allow_migrate(self, db: str, app_label: str, **hints: Any) -> bool:
        return db == "default" or app_label in ROUTED_APPS


@sync_and_async_middleware
def DatabaseMiddleware(
    get_response: Callable[[HttpRequest], HttpResponse | Awaitable[HttpResponse]],
) -> Callable:
    """Makes `?db=` the database of the request; an unknown name is a 404."""

    def alias_or_answer(request: HttpRequest) -> tuple[str, HttpResponse | None]:
        try:
            return alias_of(request.GET.get("db")), None
        except NotFound as error:
            return "default", JsonResponse(error.as_json(), status=error.http_status)

    if iscoroutinefunction(get_response):

        async def middleware(request: HttpRequest) -> HttpResponse:
            alias, answer = alias_or_answer(request)
            token = _current.set(alias)
            try:
                return answer or await get_response(request)
            finally:
                _current.reset(token)
    else:

        def middleware(request: HttpRequest) -> HttpResponse:
            alias, answer = alias_or_answer(request)
            token = _current.set(alias)
            try:
                return answer or get_response(request)
            finally:
                _current.reset(token)

    return middleware
