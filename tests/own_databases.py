"""A fresh installation for scripts that run outside of pytest: data folder and database."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import psycopg

ROOT = Path(__file__).resolve().parent.parent
POSTGRES_URL = os.environ.get(
    "GLIGABAO_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"
)
REDIS_URL = os.environ.get("GLIGABAO_TEST_REDIS", "redis://127.0.0.1:6379/9")

MAKE_TOKEN = """
from django.contrib.auth.models import Group, User
from knox.models import AuthToken
user = User.objects.create_user("reader", password="a-long-password")
user.groups.add(Group.objects.get_or_create(name="trainer")[0])
print(AuthToken.objects.create(user)[1])
"""
MAKE_JOBS = """
from tests.factories import make_job
print(*[make_job().pk for _ in range({number})])
"""


@dataclass
class Installation:
    """`env` is the environment of its processes."""

    env: dict[str, str]

    def python(self, code: str) -> str:
        """The last line that this code prints, run with Django set up."""
        code = f"import django; django.setup()\n{code}"
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=ROOT, env=self.env, check=True, capture_output=True, text=True,
        )  # fmt: skip
        return done.stdout.strip().splitlines()[-1]

    def token(self) -> str:
        return self.python(MAKE_TOKEN)

    def jobs(self, number: int) -> list[int]:
        return [int(word) for word in self.python(MAKE_JOBS.format(number=number)).split()]


@contextmanager
def own_databases(kind: str, folder: Path) -> Iterator[Installation]:
    """An installation on SQLite, PostgreSQL ("postgres"), or PostgreSQL with Redis ("redis")."""
    env = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    env |= {"DJANGO_SETTINGS_MODULE": "gligabao.settings", "GLIGABAO_DATA_DIR": str(folder)}
    (folder / "tmp").mkdir(exist_ok=True)  # for uploads; Django wants it to be there
    name = f"gligabao_own_{os.getpid()}"
    if kind != "sqlite":
        env["DATABASE_URL"] = POSTGRES_URL.rpartition("/")[0] + f"/{name}"
        _postgres(f"CREATE DATABASE {name}")
    if kind == "redis":
        env["REDIS_URL"] = REDIS_URL
    try:
        subprocess.run(
            [sys.executable, "manage.py", "migrate", "--verbosity=0"], cwd=ROOT, env=env, check=True
        )
        yield Installation(env)
    finally:
        if kind != "sqlite":
            _postgres(f"DROP DATABASE {name} WITH (FORCE)")


def _postgres(statement: str) -> None:
    with psycopg.connect(POSTGRES_URL, autocommit=True) as connection:
        connection.execute(statement)
