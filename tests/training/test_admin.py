"""Raw rows in /admin/: read-only, and cheap however many events there are."""

import re

import pytest
from django.contrib.auth.models import User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from tests.factories import make_job, token_of
from training.models import JobEvent

pytestmark = pytest.mark.django_db

NUM_EVENTS = 2000
READS_ALL_EVENTS = re.compile(
    r'SELECT (COUNT\(\*\)|DISTINCT).*FROM "gb_training_job_events"(?! WHERE)'
)


@pytest.fixture
def admin():
    client = Client()
    client.force_login(User.objects.create_superuser("root", password="a-long-password"))
    return client


@pytest.fixture
def big_job():
    job = make_job()
    JobEvent.objects.bulk_create(
        JobEvent(run=job, seq=seq, type="progress", source="trainer", data={"step": seq})
        for seq in range(1, NUM_EVENTS)
    )
    return job


@pytest.mark.parametrize(
    "path",
    [
        "/admin/training/jobevent/",
        "/admin/training/jobevent/?q={run_id}",
        "/admin/training/jobevent/?p=3",
        "/admin/training/jobevent/?type=progress",
        "/admin/training/trainingjob/",
        "/admin/training/trainingjob/{run_id}/change/",
        "/admin/training/jobattempt/",
        "/admin/training/trainedmodel/",
        "/v1/gb/training/jobs",
    ],
)
def test_u01_pages_take_few_queries_and_never_read_all_events(admin, big_job, path):
    with CaptureQueriesContext(
        connection,
    ) as queries:
        answer = admin.get(path.format(run_id=big_job.pk))

    assert answer.status_code == 200
    assert len(queries) <= 20
    asked = [query["sql"] for query in queries]
    assert [sql for sql in asked if READS_ALL_EVENTS.search(sql)] == []
    if path.startswith("/v1/"):
        assert [sql for sql in asked if "gb_training_job_events" in sql] == []


def test_rows_cannot_be_changed_and_secrets_are_not_shown(admin, big_job):
    page = admin.get(f"/admin/training/trainingjob/{big_job.pk}/change/").content.decode()

    assert big_job.nonce not in page
    assert big_job.token_hash not in page
    assert token_of(big_job) not in page
    assert 'name="_save"' not in page
    assert admin.get("/admin/training/trainingjob/add/").status_code == 403
    assert admin.post(f"/admin/training/trainingjob/{big_job.pk}/delete/").status_code == 403
