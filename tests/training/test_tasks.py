"""The sweep and what is sent to the workers, when a service is away."""

import os
import subprocess
import sys

import pytest
import time_machine
from django.conf import settings as django_settings
from django.db import transaction

from gligabao.databases import database_aliases
from tests.own_databases import ROOT
from training import tasks

SWEEP = """
import django
django.setup()
from django.core.management import call_command
for alias in ("default", "second"):
    call_command("migrate", database=alias, verbosity=0)
from tests.factories import make_dataset, make_job
from tests.fakes import FakeProvider
from training import providers, tasks
from training.models import TrainingJob
fake = FakeProvider()
providers.PROVIDERS["local"] = lambda: fake
job = make_job("second", dataset_sha256=make_dataset(db="second").sha256)
gone = make_job("default", dataset_sha256=make_dataset(db="default").sha256)
fake.live_runs = lambda: print("reconciled") or []
tasks.sweep()
print(sorted(spec.job_id for spec in fake.submitted) == sorted([job.job_id, gone.job_id]))
fake.live_runs = list
tasks.sweep()
"""


def test_a_database_that_is_away_does_not_stop_the_others(tmp_path):
    (tmp_path / "broker" / "queue").mkdir(parents=True)
    (tmp_path / "broker" / "control").mkdir()
    environment = {
        "PATH": os.environ["PATH"],
        "GLIGABAO_DATA_DIR": str(tmp_path),
        "GLIGABAO_DATABASES": "away=postgresql://nobody@127.0.0.1:1/none,"
        f"second=sqlite:///{tmp_path / 'second.sqlite3'}",
        "DJANGO_SETTINGS_MODULE": "gligabao.settings",
    }

    done = subprocess.run(
        [sys.executable, "-c", SWEEP],
        cwd=ROOT, env=environment, capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.split() == ["reconciled", "True"]
    # Said once for two sweeps: what just failed is left alone for a while.
    assert done.stderr.count("The database away was not swept") == 1


def test_each_database_comes_first_in_turn():
    firsts = set()
    for second in range(len(database_aliases())):
        with time_machine.travel(1_700_000_000 + second):
            firsts.add(tasks._databases_in_turn()[0])

    assert firsts == set(database_aliases())


@pytest.mark.django_db(transaction=True)
def test_nothing_is_sent_to_a_broker_that_does_not_answer(settings, caplog):
    settings.REDIS_URL = "redis://127.0.0.1:1/0"
    queue = django_settings.BROKER_DIR / "queue"
    before = set(queue.iterdir())

    with transaction.atomic():
        tasks.send_on_commit(tasks.submit_due, db="default")

    assert set(queue.iterdir()) == before
    assert "the sweep will do it" in caplog.text
