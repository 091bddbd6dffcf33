"""The trainer's package on the path, its one tiny model, and a process with its libraries."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.trainer.control_plane import ControlPlane
from tests.trainer.jobs import TRAINER_IMAGE, Job, trainer_environment
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


class Probe:
    """Calls functions of `probe_process.py` in a process that has the trainer's libraries."""

    def __init__(self, models_dir: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-P", str(Path(__file__).with_name("probe_process.py"))],
            env=trainer_environment(models_dir),
            cwd=models_dir,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, function: str, **arguments):
        self._process.stdin.write(json.dumps([function, arguments]) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "error" not in answer, answer["error"]
        return answer["result"]

    def close(self) -> None:
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()


@pytest.fixture(scope="session")
def probe(models_dir):
    probe = Probe(models_dir)
    yield probe
    probe.close()


@pytest.fixture(scope="session")
def finished():
    """A finished job on three facts, and the control plane that it reported to."""
    return finished_job()
