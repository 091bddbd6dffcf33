"""A disk without room, when a run has its model and nowhere to put it."""

import pytest
from in_process import Reports, fine_tune
from safetensors.torch import load_file

from trainer import room
from trainer.artifacts import list_artifacts, save_model
from trainer.errors import Stopped, as_job_failure
from trainer.stop import StopSignal

NO_ROOM = "File too large"  # what a limit on the size of files says


@pytest.fixture
def save(tiny_dir, tmp_path):
    """Saves a trained model and its training.json, patiently."""
    tuned = fine_tune(tiny_dir, tmp_path, num_train_steps=2)
    output = tmp_path / "output"

    def write():
        save_model(output, tuned.spec, model=tuned.result.model, tokenizer=tuned.tokenizer)
        return list_artifacts(output, {})

    def save(reports):
        stop = StopSignal(tmp_path / "stop", max_seconds=600)
        files = room.write_when_there_is_room(
            write, "The trained model", reporter=reports, stop=stop, pause=0.01
        )
        return output, files

    return save


@pytest.mark.parametrize("size", [5000, 10], ids=["weights", "all"])
def test_a_model_is_kept_as_soon_as_there_is_room(save, disk, size):
    class MakesRoom(Reports):
        def report(self, type, **fields):
            super().report(type, **fields)
            disk.free()

    reports = MakesRoom()

    with disk.full(size):
        output, files = save(reports)

    (warning,) = reports.of_type("warning")
    assert warning["code"] == "disk_full"
    assert "The trained model cannot be written (" in warning["message"]
    assert NO_ROOM in warning["message"]
    assert load_file(output / "adapter_model.safetensors")
    assert "training.json" in {file.path for file in files}


def test_a_stop_ends_the_wait(save, disk, tmp_path):
    class Stops(Reports):
        def report(self, type, **fields):
            super().report(type, **fields)
            (tmp_path / "stop").touch()

    with disk.full(10), pytest.raises(Stopped):
        save(Stops())


def test_who_waited_in_vain_is_told_what_to_do(save, disk, monkeypatch):
    monkeypatch.setattr(room, "PATIENCE_SECONDS", 0.05)

    with disk.full(10), pytest.raises(OSError, match=NO_ROOM) as caught:
        save(Reports())

    failure = as_job_failure(caught.value)
    assert failure.reason == "trainer_error"
    assert failure.message.startswith("The disk is full (")
    assert "free some space on it and retry" in failure.message


def test_another_fault_is_not_waited_for():
    def fails():
        raise ValueError("a fault of another kind")

    reports = Reports()

    with pytest.raises(ValueError, match="another kind"):
        room.write_when_there_is_room(fails, "It", reporter=reports, stop=None)
    assert reports.of_type("warning") == []
