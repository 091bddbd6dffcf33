"""Troubles of ours, of the clock and of the disk: none ends a job that could go on."""

import pytest
import time_machine
from django.utils import timezone

from gligabao.errors import ProviderUnreachable, StorageError
from tests.training.runner.conftest import completed, progress, status
from training.models import TrainedModel, TrainingJob
from training.providers.base import Phase
from training.runner import follow, submit

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)


class FullDisk:
    """A storage that cannot take anything."""

    def stat(self, key):
        return None

    def put(self, key, file):
        raise StorageError("No space is left on the disk.")


def shifted(**delta):
    return time_machine.travel(timezone.now() + timezone.timedelta(**delta))


@pytest.fixture
def ended(play):
    """A job whose trainer completed without having uploaded, on a disk that may be full."""
    one = play()
    one.submit()
    one.leave()
    one.say(status(0, "training"), completed(1))
    one.end()
    return one


def test_a_full_disk_is_told_and_the_model_is_made_when_there_is_room(ended, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr("training.runner.verify.get_storage", FullDisk)
        ended.look()
        ended.look()

    assert ended.job.status == "uploading"
    assert [warning["code"] for warning in ended.job.warnings] == ["storage_failed"]
    assert "No space is left" in ended.job.warnings[0]["message"]
    ended.look()
    assert ended.job.status == "completed"
    assert TrainedModel.objects.using(ended.db).count() == 1


def test_a_disk_that_stays_full_for_a_day_fails_the_job(ended, monkeypatch):
    monkeypatch.setattr("training.runner.verify.get_storage", FullDisk)

    with shifted(hours=24, seconds=5):
        ended.look()

    assert (ended.job.status, ended.job.reason) == ("failed", "artifact_invalid")


@pytest.mark.parametrize("field", ["next_poll_at", "lease_until"])
def test_a_clock_that_was_put_back_leaves_no_job_alone(play, field):
    one = play()
    one.submit()
    TrainingJob.objects.using(one.db).filter(pk=one.job.pk).update(
        **{field: timezone.now() + timezone.timedelta(hours=1)}
    )

    assert [run_id for run_id, _ in follow.claim_due(one.db)] == [one.job.pk]


def test_a_claim_from_the_future_lapses(play, fake_provider):
    one = play()
    TrainingJob.objects.using(one.db).filter(pk=one.job.pk).update(
        claimed_at=timezone.now() + timezone.timedelta(hours=1)
    )

    submit.submit_due(one.db)

    assert len(fake_provider.submitted) == 1


def test_a_try_that_failed_and_yet_started_a_run_is_found_at_the_deadline(play, fake_provider):
    one = play()
    fake_provider.submit_errors = [ProviderUnreachable("No answer.")]
    one.submit()
    fake_provider.submit(submit.build_spec(one.job, one.db))
    fake_provider.submit_errors = [ProviderUnreachable("No.")]

    with shifted(seconds=3601):
        one.submit()

    assert (one.job.status, one.job.provider_job_id) == ("started", f"fake-{one.job.job_id}")


def test_the_start_is_the_providers_when_reports_come_much_later(play):
    one = play()
    one.submit()
    up_since = timezone.now() - timezone.timedelta(minutes=25)
    one.phase(Phase.RUNNING, started_at=up_since)

    one.look()
    one.say(status(0, "running"), progress(1, 1, 2.0))

    assert (one.job.status, one.job.started_at) == ("running", up_since)
    assert up_since.isoformat() in [event.data.get("started_at") for event in one.events]
