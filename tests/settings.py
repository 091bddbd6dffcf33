"""Settings of the tests: everything in a temporary folder, PostgreSQL and Redis where they are.

`default` is SQLite, `second` another SQLite file, `pg` PostgreSQL. With CI set all services are
taken for granted: a missing one fails the tests that need it.
"""

import os
import socket
import tempfile
from pathlib import Path
from urllib.parse import urlsplit

IS_CI = os.environ.get("CI", "").lower() in {"1", "true"}
POSTGRES_URL = os.environ.get(
    "GLIGABAO_TEST_POSTGRES", "postgresql://postgres@127.0.0.1:5432/postgres"
)
TEST_REDIS_URL = os.environ.get("GLIGABAO_TEST_REDIS", "redis://127.0.0.1:6379/9")


def _answers(url: str) -> bool:
    parts = urlsplit(url)
    try:
        with socket.create_connection((parts.hostname, parts.port), timeout=1):
            return True
    except OSError:
        return False


HAS_POSTGRES = IS_CI or _answers(POSTGRES_URL)
HAS_REDIS = IS_CI or _answers(TEST_REDIS_URL)

for name in [name for name in os.environ if name.startswith("GLIGABAO_") and "_TEST_" not in name]:
    del os.environ[name]
for name in ("DATABASE_URL", "REDIS_URL"):
    os.environ.pop(name, None)

TEST_DATA_DIR = Path(tempfile.mkdtemp(prefix="gligabao-tests-"))
os.environ["GLIGABAO_DATA_DIR"] = str(TEST_DATA_DIR)
for folder in ("static", "broker/queue", "broker/control", "tmp"):  # as `up` makes them
    (TEST_DATA_DIR / folder).mkdir(parents=True)
_databases = [f"second=sqlite:///{TEST_DATA_DIR / 'second.sqlite3'}"]
if HAS_POSTGRES:
    _databases.append(f"pg={POSTGRES_URL}")
os.environ["GLIGABAO_DATABASES"] = ",".join(_databases)

from gligabao.settings import *  # noqa: E402, F403

for alias in ("default", "second"):
    DATABASES[alias]["TEST"] = {"NAME": str(TEST_DATA_DIR / f"test_{alias}.sqlite3")}  # noqa: F405
if HAS_POSTGRES:
    DATABASES["pg"]["TEST"] = {"NAME": f"gligabao_test_{os.getpid()}"}  # noqa: F405
PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]
CELERY_TASK_ALWAYS_EAGER = False
# Names without a digest: nothing has to be collected for Django's own test client. Real web
# processes (tests/servers.py) have the real settings.
STORAGES["staticfiles"]["BACKEND"] = "django.contrib.staticfiles.storage.StaticFilesStorage"  # noqa: F405
