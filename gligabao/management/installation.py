"""What has to be there before the first process starts. Safe to repeat at every start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from django.conf import settings
from django.core.management import CommandError, call_command
from django.db import DatabaseError, connections

from datasets.services import sync_from_directory
from gligabao.accounts import FIRST_ADMIN, make_first_admin, make_roles
from gligabao.databases import database_aliases, name_of
from gligabao.health import check_database
from gligabao.secrets_filter import remove_secrets
from gligabao.static_files import collect_static_files


def prepare(say: Callable[[str], None]) -> None:
    """Make folders, static files, tables, roles, the first admin and the records of the datasets.

    Raises CommandError with one sentence for what is in the way.
    """
    make_folders()
    collect_static_files()
    for alias in database_aliases():
        _migrate(alias, say)
    make_roles()
    password = make_first_admin()
    if password is not None:
        say(f"First start: log in as {FIRST_ADMIN} with the password {password}")
        say("It is not shown again. Change it at /admin/password_change/")
    for alias in database_aliases():
        for problem in sync_from_directory(db=alias).problems:
            say(f"Datasets of {name_of(alias)}: {problem}")
    close_databases()


def make_folders() -> None:
    """Make the folders that the processes expect, readable for our user only."""
    broker = [settings.BROKER_DIR / name for name in ("queue", "control")]
    for folder in (*broker, run_dir(), settings.TEMP_DIR, settings.STATIC_ROOT):
        try:
            folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CommandError(
                f"The folder {folder} cannot be made: {error.strerror}. "
                "Set GLIGABAO_DATA_DIR to a folder that you can write."
            ) from error


def lock_file() -> Path:
    """Locked while `up` runs; holds its process number and, once it listens, its address."""
    return run_dir() / "up.lock"


def run_dir() -> Path:
    """Where the processes of this installation leave their numbers."""
    return settings.DATA_DIR / "run"


def close_databases() -> None:
    """Close connections and pools: their threads must not be there when a process forks."""
    for connection in connections.all(initialized_only=True):
        connection.close()
        if connection.vendor == "postgresql":
            connection.close_pool()


def _migrate(alias: str, say: Callable[[str], None]) -> None:
    try:
        check_database(alias)
        call_command("migrate", database=alias, verbosity=0, interactive=False)
    except DatabaseError as error:
        variable = "DATABASE_URL" if alias == "default" else "GLIGABAO_DATABASES"
        reason = remove_secrets(str(error).strip().partition("\n")[0])
        raise CommandError(
            f"The database {name_of(alias)} cannot be used: {reason}. Check {variable}."
        ) from error
    say(f"Database {name_of(alias)}: ready.")
