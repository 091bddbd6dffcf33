"""Whether this installation is up and able to work, for load balancers and `manage.py up`."""

from __future__ import annotations

from django.db import DatabaseError, connections
from django.db.migrations.executor import MigrationExecutor
from django.http import HttpRequest, JsonResponse
from django.views.decorators.http import require_safe

from gligabao.broker import check_broker
from gligabao.databases import database_aliases, name_of
from gligabao.errors import BrokerUnreachable

CONNECT_SECONDS = 2  # for a database to answer; libpq knows no less


def check_database(alias: str) -> None:
    """Return when the database answers. Raises DatabaseError, after 2 seconds at the latest."""
    connection = connections[alias]
    if connection.vendor != "postgresql":
        with connection.cursor() as cursor:
            cursor.execute("SELECT count(*) FROM sqlite_master")
        return
    parameters = connection.get_connection_params() | {"connect_timeout": CONNECT_SECONDS}
    with connection.wrap_database_errors:
        # Past the pool, which would go on trying for longer.
        connection.Database.connect(**parameters).close()


def is_migrated(alias: str) -> bool:
    executor = MigrationExecutor(connections[alias])
    return not executor.migration_plan(executor.loader.graph.leaf_nodes())


@require_safe
def healthz(request: HttpRequest) -> JsonResponse:
    """The process answers. Nothing else is looked at."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> JsonResponse:
    """Databases and broker answer and every migration is applied; 503 otherwise."""
    databases = {name_of(alias): _state_of_database(alias) for alias in database_aliases()}
    broker = _state_of_broker()
    is_ready = broker == "ok" and all(state == "ok" for state in databases.values())
    return JsonResponse(
        {
            "status": "ready" if is_ready else "not ready",
            "databases": databases,
            "broker": broker,
        },
        status=200 if is_ready else 503,
    )


def _state_of_database(alias: str) -> str:
    try:
        check_database(alias)
        return "ok" if is_migrated(alias) else "migrations missing"
    except DatabaseError:
        return "no answer"


def _state_of_broker() -> str:
    try:
        check_broker()
    except BrokerUnreachable:
        return "no answer"
    return "ok"
