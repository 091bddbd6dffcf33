"""The light modules of the trainer's package on the path, and its one tiny model."""

import sys
from pathlib import Path

import pytest

from tests.trainer.control_plane import ControlPlane
from tests.trainer.jobs import TRAINER_IMAGE, Job
from tests.trainer.shared import finished_job, model_cache

# Only the light modules are imported here. What needs torch or trl runs in a process of its own:
# here the name `datasets` is our app, there it is the library.
sys.path.append(str(TRAINER_IMAGE))


@pytest.fixture(scope="session")
def models_dir() -> Path:
    """A model cache with `tiny` in it."""
    return model_cache()


@pytest.fixture
def control_plane():
    with ControlPlane() as plane:
        yield plane


@pytest.fixture
def make_job(tmp_path, models_dir):
    """A job on rows, or on a dataset file."""

    def make(dataset: Path | str, name: str = "job", **changed) -> Job:
        if isinstance(dataset, str):
            path = tmp_path / f"{name}.jsonl"
            path.write_text(dataset)
            dataset = path
        return Job(tmp_path / name, models_dir, dataset, **changed)

    return make


@pytest.fixture(scope="session")
def finished():
    """A finished job on three facts, and the control plane that it reported to."""
    return finished_job()
