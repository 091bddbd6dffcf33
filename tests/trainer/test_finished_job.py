"""A whole job on the tiny model: what it reports, learns, stores, and keeps to itself."""

import hashlib
import json

from tests.trainer.jobs import JOB_TOKEN, SPEC_KEY
from tests.trainer.shared import FACTS

FINAL = {"completed", "failed", "cancelled"}


def test_job_completes_step_by_step(finished):
    job, _ = finished

    assert job.exit_code == 0
    assert job.statuses == ["running", "training", "uploading", "completed"]
    assert [event["step"] for event in job.of_type("progress")] == list(range(1, 121))
    assert [event["step"] for event in job.of_type("checkpoint")] == [40, 80, 120]


def test_loss_falls_and_is_summed_up(finished):
    job, _ = finished
    losses = list(job.losses().values())
    completed = job.events[-1]

    assert losses[-1] < 0.1 * losses[0]
    assert abs(completed["final_loss"] - sum(losses) / len(losses)) < 1e-3
    assert abs(completed["last_loss"] - losses[-1]) < 1e-4
    assert completed["steps"] == 120
    assert completed["num_examples"] == len(FACTS)
    assert completed["tokens"] == job.of_type("progress")[-1]["tokens"]
    assert completed["params"]["learning_rate"] == 0.01
    assert completed["params"]["seed"] == 7


def test_the_saved_files_are_proved_to_change_the_model(finished):
    job, plane = finished
    effect = job.events[-1]["effect"]

    assert effect["max_logit_difference"] > 100 * effect["needed_difference"]
    assert effect["tuned_loss"] < 0.1 * effect["base_loss"]
    assert json.loads(plane.files["training.json"])["result"]["effect"] == effect
    assert "change the loss on 3 training examples" in job.log


def test_control_plane_has_every_report_once_and_in_order(finished):
    job, plane = finished

    assert list(plane.events.values()) == job.events
    assert plane.num_duplicates == 0


def test_first_report_is_out_before_anything_is_loaded(finished):
    job, plane = finished

    assert plane.posts[0][0]["status"] == "running"
    assert set(plane.posts[0][0]["versions"]) >= {"trainer", "python", "torch", "trl"}
    assert [event["seq"] for event in job.events] == list(range(len(job.events)))
    assert job.events[0]["seq"] == 0


def test_a13_a07_all_files_are_stored_with_their_digests(finished):
    job, plane = finished
    files = {file["path"]: file for file in job.events[-1]["files"]}

    assert set(files) == {
        "adapter_config.json",
        "adapter_model.safetensors",
        "chat_template.jinja",
        "tokenizer.json",
        "tokenizer_config.json",
        "training.json",
    }
    assert set(plane.files) == set(files)
    for path, content in plane.files.items():
        assert content == (job.folder / "output" / path).read_bytes()
        assert files[path]["size_bytes"] == len(content)
        assert files[path]["sha256"] == hashlib.sha256(content).hexdigest()


def test_adapter_names_the_public_base_model(finished):
    _, plane = finished
    config = json.loads(plane.files["adapter_config.json"])

    assert config["base_model_name_or_path"] == "gligabao/tiny-gemma-4"
    assert config["peft_type"] == "LORA"


def test_training_json_says_how_the_model_was_made(finished):
    job, plane = finished
    training = json.loads(plane.files["training.json"])

    assert training["spec"]["dataset_sha256"] == job.spec["dataset_sha256"]
    assert training["spec"]["hyperparams"].items() >= job.spec["hyperparams"].items()
    assert training["result"]["steps"] == 120
    assert training["versions"]["trl"]
    assert training["dataset"]["num_examples"] == len(FACTS)


def test_u05_secrets_are_nowhere(finished):
    job, plane = finished
    texts = [job.log, (job.folder / "events.jsonl").read_text()]
    texts += [content.decode("utf-8", "replace") for content in plane.files.values()]

    for text in texts:
        for secret in (JOB_TOKEN, SPEC_KEY, "X-Amz-Signature", "signature-number"):
            assert secret not in text


def test_published_files_name_no_folder_of_this_machine(finished):
    job, plane = finished

    for content in plane.files.values():
        assert str(job.folder).encode() not in content
        assert str(job.models_dir).encode() not in content
