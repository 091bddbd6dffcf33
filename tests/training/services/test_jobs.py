"""Starting jobs: what is handed to a worker, and which bytes a job keeps."""

import hashlib
import io

import pytest
from django.conf import settings
from django.db import transaction

from datasets.services import open_for_job, save_upload
from gligabao.errors import Conflict, DatasetDamaged, ProviderUnreachable
from tests.factories import end_job, make_dataset
from training.models import TrainingJob
from training.runner import submit
from training.services import jobs
from training.services.jobs import JobRequest

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

OTHER_ROWS = b'{"prompt": "Lamp on?", "completion": "No."}\n' * 12


def messages():
    return list((settings.BROKER_DIR / "queue").iterdir())


@pytest.fixture(autouse=True)
def _empty_queue(fake_provider):
    for message in messages():
        message.unlink()


def start(db="default", **fields):
    request = JobRequest(dataset="mine.jsonl", base_model="tiny", **fields)
    return jobs.start_job(request, db=db, user_id=1).job


def test_l04_a_worker_hears_of_a_job_only_after_its_commit():
    make_dataset()

    with transaction.atomic():
        start()
        before = len(messages())

    assert (before, len(messages())) == (0, 1)


def test_l04_a_rolled_back_job_is_never_heard_of():
    make_dataset()

    with transaction.atomic():
        start()
        transaction.set_rollback(True)

    assert messages() == []
    assert not TrainingJob.objects.exists()


def test_l04_a_job_whose_message_was_lost_is_found_by_the_sweep(fake_provider):
    make_dataset()
    job = start()
    for message in messages():
        message.unlink()

    submit.submit_due("default")

    assert [spec.job_id for spec in fake_provider.submitted] == [job.job_id]


def test_d27_a_job_trains_the_bytes_it_was_started_with(fake_provider):
    old = make_dataset()
    first = start()
    new, _ = save_upload(io.BytesIO(OTHER_ROWS), filename="mine.jsonl", db="default")
    second = start()
    fake_provider.submit_errors = []

    submit.submit_due("default")

    digests = {spec.job_id: spec.dataset_sha256 for spec in fake_provider.submitted}
    assert digests == {first.job_id: old.sha256, second.job_id: new.sha256}
    for spec in fake_provider.submitted:
        with open(spec.dataset_path, "rb") as file:
            assert hashlib.file_digest(file, "sha256").hexdigest() == spec.dataset_sha256


def test_d27_a_damaged_file_is_a_500_and_no_provider_is_called(fake_provider, api_as):
    dataset = make_dataset()
    path = open_for_job(dataset.filename, db="default").path
    path.chmod(0o600)
    path.write_bytes(path.read_bytes()[:10])

    with pytest.raises(DatasetDamaged):
        start()
    answer = api_as("trainer").post(
        "/v1/gb/training/jobs", {"dataset": "mine.jsonl"}, format="json"
    )

    assert answer.status_code == 500
    assert "upload" in answer.json()["error"].lower()
    assert fake_provider.submitted == []
    assert not TrainingJob.objects.exists()


def test_a_retry_keeps_the_digest_of_the_first_run(fake_provider):
    old = make_dataset()
    job = end_job(start(), "failed")
    save_upload(io.BytesIO(OTHER_ROWS), filename="mine.jsonl", db="default")

    again = jobs.retry_job(job.pk, db="default", user_id=1, resume=True)
    submit.submit_due("default")

    assert again.dataset_sha256 == old.sha256
    spec = fake_provider.submitted[0]
    assert spec.resume_from.endswith(f"{job.job_id}/checkpoints")


def test_a_wish_to_stop_is_kept_while_the_provider_cannot_be_reached(fake_provider):
    make_dataset()
    job = start()
    submit.submit_due("default")
    fake_provider.check_error = ProviderUnreachable("The folder cannot be written.")

    assert jobs.stop_job(job.pk, db="default", by="ann") is None

    job.refresh_from_db()
    assert job.is_stopping


def test_a_job_whose_run_cannot_be_removed_yet_stays(fake_provider, monkeypatch):
    make_dataset()
    job = end_job(start(), "failed")

    def refuse(job_id):
        raise Conflict("The run still lives.")

    with monkeypatch.context() as patch:
        patch.setattr(fake_provider, "delete_run", refuse)
        with pytest.raises(Conflict):
            jobs.delete_job(job.pk, db="default")
    assert TrainingJob.objects.filter(pk=job.pk).exists()

    jobs.delete_job(job.pk, db="default")
    assert not TrainingJob.objects.filter(pk=job.pk).exists()
