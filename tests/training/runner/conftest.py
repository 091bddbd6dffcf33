"""A job on a provider that the test plays."""

import hashlib
import json
import struct

import pytest

from gligabao.storage import get_storage
from tests.factories import make_dataset, make_job
from training.contract import parse_report
from training.events import append_events
from training.models import TrainingJob
from training.providers.base import Phase
from training.runner import follow, submit

TENSOR = "a.lora_A.weight"


def safetensors_bytes(name=TENSOR):
    header = json.dumps({name: {"dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    return struct.pack("<Q", len(header)) + header + b"\0\0\0\0"


ARTIFACTS = {
    "adapter_config.json": b'{"peft_type": "LORA"}',
    "adapter_model.safetensors": safetensors_bytes(),
}


def files_of(artifacts):
    return [
        {"path": path, "size_bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for path, data in artifacts.items()
    ]


class Play:
    """One job: what its trainer says, what its provider answers, one look after another."""

    def __init__(self, provider, db, **fields):
        self.provider = provider
        self.db = db
        dataset = make_dataset(db=db)
        self.job = make_job(db, dataset_sha256=dataset.sha256, **fields)

    def submit(self):
        submit.submit_job(self.db, self.job.pk)
        return self.reload()

    def say(self, *reports, boot="b"):
        """Reports by callback."""
        parsed = [parse_report({"boot": boot, **report}) for report in reports]
        append_events(self.job.pk, parsed, db=self.db)
        return self.reload()

    def log(self, *reports, boot="b"):
        """Reports that only the provider's log has."""
        self.provider.run_of(self.job).reports.extend({"boot": boot, **r} for r in reports)

    def phase(self, phase, **facts):
        self.provider.set_phase(self.job, phase, **facts)

    def end(self, exit_code=0, **facts):
        self.phase(Phase.ENDED, exit_code=exit_code, **facts)

    def leave(self, artifacts=ARTIFACTS):
        """Files that the run leaves behind without uploading them."""
        self.provider.run_of(self.job).files.update(artifacts)

    def store(self, artifacts=ARTIFACTS):
        """Files as a trainer uploads them."""
        import io

        for path, data in artifacts.items():
            get_storage().put(f"{self.job.job_id}/{self.job.attempt}/{path}", io.BytesIO(data))

    def look(self):
        TrainingJob.objects.using(self.db).filter(pk=self.job.pk).update(
            next_poll_at=self.job.created_at, lease_until=None
        )
        for run_id, lease in follow.claim_due(self.db):
            follow.follow_run(self.db, run_id, lease)
        return self.reload()

    def reload(self):
        self.job.refresh_from_db(using=self.db)
        return self.job

    @property
    def events(self):
        return list(self.job.events.using(self.db).order_by("seq"))

    @property
    def trainer_events(self):
        return [event for event in self.events if event.source == "trainer"]


@pytest.fixture
def play(fake_provider, any_db):
    return lambda **fields: Play(fake_provider, any_db, **fields)


def status(seq, word, **data):
    return {"seq": seq, "type": "status", "status": word, **data}


def progress(seq, step, loss, **data):
    return {"seq": seq, "type": "progress", "step": step, "loss": loss, **data}


def completed(seq, artifacts=ARTIFACTS, **data):
    return status(seq, "completed", final_loss=1.7, files=files_of(artifacts), **data)
