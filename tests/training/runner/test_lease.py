"""A lease that is kept while work goes on."""

import pytest
from django.db import connections

from tests.factories import make_job
from tests.waiting import eventually
from training.models import TrainingJob
from training.runner import lease

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

TABLE, AWAY = "gb_training_job_runs", "gb_away"


def test_a_lease_goes_on_being_renewed_after_its_database_stumbled(any_db, monkeypatch, caplog):
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.02)
    job = make_job(any_db, lease_owner="me")

    def rename(old, new):
        with connections[any_db].cursor() as cursor:
            cursor.execute(f"ALTER TABLE {old} RENAME TO {new}")

    with lease.held(any_db, job.pk, "me"):
        rename(TABLE, AWAY)
        try:
            eventually(lambda: "was not renewed" in caplog.text)
        finally:
            rename(AWAY, TABLE)
        row = TrainingJob.objects.using(any_db).filter(pk=job.pk)
        row.update(lease_until=None)
        eventually(lambda: row.get().lease_until is not None)
