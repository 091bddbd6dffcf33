"""Rows that are valid by default; a test names only what matters to it."""

import hashlib
import io

from django.conf import settings
from django.utils import timezone

from datasets.services import save_upload
from training.contract import server_event
from training.events import append_events
from training.models import TrainedModel, TrainingJob
from training.tokens import hash_token, make_job_token, new_job_id, new_nonce

HYPERPARAMS = {
    "learning_rate": 0.002, "lora_rank": 8, "lora_alpha": 16, "batch_size": 4,
    "max_length": 256, "seed": 7, "checkpoint_every": 50, "logging_steps": 1,
}  # fmt: skip


def make_job(db="default", events=True, **fields):
    """A queued job with its first event."""
    job_id, nonce = new_job_id(), new_nonce()
    token = make_job_token(job_id, nonce, key=settings.SECRET_KEY)
    defaults = {
        "job_id": job_id,
        "nonce": nonce,
        "token_hash": hash_token(token),
        "base_model": "tiny",
        "model_size": "tiny",
        "model_source": "built",
        "method": "lora",
        "provider": "local",
        "hyperparams": dict(HYPERPARAMS),
        "dataset": "mine.jsonl",
        "dataset_sha256": hashlib.sha256(b"mine").hexdigest(),
        "num_train_steps": 100,
        "max_seconds": 7200,
    }
    job = TrainingJob.objects.using(db).create(**(defaults | fields))
    if events:
        append_events(job.pk, [server_event("status", status="queued")], db=db)
        job.refresh_from_db(using=db)
    return job


def make_dataset(filename="mine.jsonl", db="default", num_rows=3):
    """A dataset as an upload stores it."""
    rows = b"".join(
        b'{"messages": [{"role": "user", "content": "Shelf %d?"}, '
        b'{"role": "assistant", "content": "Bolts %d."}]}\n' % (number, number)
        for number in range(num_rows)
    )
    dataset, _ = save_upload(io.BytesIO(rows), filename=filename, db=db)
    return dataset


def token_of(job):
    return make_job_token(job.job_id, job.nonce, key=settings.SECRET_KEY)


def end_job(job, status="completed", db="default", **data):
    """Give a job its final event."""
    event = server_event(
        "status", status=status, reason="", error="", final_loss=None, model_id=None, **data
    )
    append_events(job.pk, [event], db=db)
    job.refresh_from_db(using=db)
    return job


def make_trained_model(db="default", **fields):
    job_id = fields.pop("job_id", new_job_id())
    defaults = {
        "name": "tiny-mine.jsonl-100steps",
        "job_id": job_id,
        "base_model": "gligabao/tiny-gemma-4",
        "base_model_id": "tiny",
        "base_model_revision": "1",
        "model_source": "built",
        "model_size": "tiny",
        "method": "lora",
        "dataset": "mine.jsonl",
        "dataset_sha256": hashlib.sha256(b"mine").hexdigest(),
        "num_examples": 3,
        "num_train_steps": 100,
        "final_loss": 1.5,
        "params": dict(HYPERPARAMS),
        "path": f"{job_id}/1",
        "files": [],
        "size_bytes": 0,
        "storage_bytes": 0,
        "verified_at": timezone.now(),
    }
    return TrainedModel.objects.using(db).create(**(defaults | fields))
