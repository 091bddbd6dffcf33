"""Real local providers in a folder of the test."""

from __future__ import annotations

import sys
from pathlib import Path

from training.contract import JobSpec
from training.providers.local import LocalProvider
from training.providers.local_environment import trainer_environment
from training.providers.local_infer import LocalInference

TRAINER = Path(__file__).with_name("reporting_trainer.py")
JOB_TOKEN = "the-token-of-this-job-0123456789"


def make_provider(folder: Path, *options: str, num_slots: int = 1, **changed) -> LocalProvider:
    values = {
        "jobs_dir": folder / "jobs",
        "slots_dir": folder / "slots",
        "num_slots": num_slots,
        "models_dir": folder / "models",
        "spec_key": "the-key-of-all-specs",
        "trainer_command": (sys.executable, "-I", str(TRAINER), *options),
        "inference": LocalInference(
            folder=folder / "infer",
            environment=trainer_environment(folder / "models"),
            timeout_seconds=30,
            idle_seconds=30,
        ),
    }
    return LocalProvider(**(values | changed))


def make_spec(job_id: str = "job1", **changed) -> JobSpec:
    values = {
        "job_id": job_id,
        "nonce": "0" * 32,
        "installation_id": "test",
        "model": "some/model",
        "revision": "1",
        "model_id": "tiny",
        "model_source": "local",
        "method": "lora",
        "lora_target_pattern": ".*",
        "dataset_sha256": "0" * 64,
        "dataset_format": "chat",
        "hyperparams": {},
        "num_train_steps": 3,
        "seed": 1,
        "max_seconds": 60,
        "job_token": JOB_TOKEN,
        "expires_at": "2030-01-01T00:00:00Z",
    }
    return JobSpec(**(values | changed))
