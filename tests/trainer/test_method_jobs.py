"""Whole jobs by other methods than LoRA, and with packing, in processes of their own."""

import json
import subprocess
import sys

import pytest

from tests.trainer.control_plane import ControlPlane
from tests.trainer.jobs import JOB_SECONDS, Job, chat_rows, trainer_environment
from tests.trainer.shared import FACTS

QUESTION, ANSWER = FACTS[0]


@pytest.fixture(scope="module")
def full(tmp_path_factory, models_dir):
    """A finished full fine-tune, and the control plane that stores its files."""
    folder = tmp_path_factory.mktemp("full")
    dataset = folder / "facts.jsonl"
    dataset.write_text(chat_rows(*FACTS))
    with ControlPlane() as plane:
        job = Job(
            folder / "job",
            models_dir,
            dataset,
            method="full",
            num_train_steps=40,
            hyperparams={"learning_rate": 0.003, "packing": True},
            callback_url=plane.callback_url,
            uploads=plane.uploads_url,
        )
        job.exit_code = job.run()
    return job, plane


def test_full_fine_tune_hands_over_a_whole_model(full):
    job, plane = full
    files = {file["path"] for file in job.events[-1]["files"]}

    assert (job.exit_code, job.statuses[-1]) == (0, "completed"), job.log
    assert {"config.json", "model.safetensors", "tokenizer.json", "training.json"} <= files
    assert "adapter_config.json" not in files
    assert set(plane.files) == files


def test_full_fine_tune_says_how_it_was_made(full):
    job, _ = full
    training = json.loads((job.folder / "output" / "training.json").read_text())
    (trained,) = [event for event in job.of_type("status") if event["status"] == "training"]

    assert training["spec"]["method"] == "full"
    assert training["spec"]["hyperparams"]["packing"] is True
    assert trained["num_trainable_parameters"] > 400_000
    assert not job.of_type("warning")


def test_full_fine_tune_answers_as_it_was_trained(full, models_dir):
    job, _ = full
    command = [sys.executable, "-P", "-m", "trainer.infer", "--model-id", "tiny"]
    command += ["--adapter", str(job.folder / "output"), "--prompt", QUESTION]

    answer = subprocess.run(
        command,
        env=trainer_environment(models_dir),
        cwd=job.folder,
        capture_output=True,
        text=True,
        timeout=JOB_SECONDS,
    )

    assert answer.stdout.strip() == ANSWER, answer.stderr


def test_qlora_without_a_gpu_fails_with_what_to_do_before_a_model_is_fetched(make_job, tmp_path):
    job = make_job(chat_rows(*FACTS), method="qlora")
    job.models_dir = tmp_path / "no-models"

    assert job.run(CUDA_VISIBLE_DEVICES="") == 1
    end = job.events[-1]
    assert (end["status"], end["reason"]) == ("failed", "trainer_error")
    assert "qlora needs a CUDA GPU" in end["error"]
    assert not job.models_dir.exists()
