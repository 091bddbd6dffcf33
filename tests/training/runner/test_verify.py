"""What a trainer stored, verified by the method of its job."""

import json
from pathlib import Path

import pytest
from django.test import Client

from gligabao.databases import name_of
from tests.factories import token_of
from tests.training.runner.conftest import ARTIFACTS, TENSOR, completed, safetensors_bytes
from training.models import TrainedModel

pytestmark = pytest.mark.django_db(databases="__all__", transaction=True)

CASES = Path(__file__).parents[2] / "cases"
A11 = (CASES / "A11.safetensors").read_bytes()
WHOLE = {"config.json": b"{}", "model.safetensors": safetensors_bytes()}
SHARD = "model-00001-of-00001.safetensors"
SHARDED = {
    "config.json": b"{}",
    "model.safetensors.index.json": json.dumps({"weight_map": {TENSOR: SHARD}}).encode(),
    SHARD: safetensors_bytes(),
}


def ended(one, files):
    """The job after its trainer stored these files and said that it completed."""
    one.submit()
    one.store(files)
    one.say(completed(0, files))
    one.end()
    return one.look()


@pytest.mark.parametrize("last", [4, 5], ids=["no-config", "no-files"])
def test_a07_a_claim_without_an_adapter_is_no_model(play, api_as, last):
    """The case's reports by the address that a trainer posts to; its last two end it each."""
    one = play()
    one.submit()
    bodies = [step["body"] for step in json.loads((CASES / "A07.json").read_text())["steps"]]
    trainer = Client(headers={"Authorization": f"Bearer {token_of(one.job)}"})
    address = f"/v1/gb/training/jobs/{one.job.pk}/events?db={name_of(one.db)}"
    for body in (*bodies[:4], bodies[last]):
        assert trainer.post(address, body, content_type="application/json").status_code == 200
    one.end()

    one.look()

    row = api_as("viewer").get(f"/v1/gb/training/jobs/{one.job.pk}?db={name_of(one.db)}").json()
    assert (row["status"], row["reason"]) == ("failed", "artifact_invalid")
    assert row["error"].startswith("adapter_config.json is missing")
    assert not TrainedModel.objects.using(one.db).exists()


@pytest.mark.parametrize("files", [WHOLE, SHARDED], ids=["one", "shards"])
def test_full_fine_tune_makes_a_model_of_whole_weights(play, files):
    one = play(method="full")

    job = ended(one, files)

    assert (job.status, job.error) == ("completed", "")
    model = TrainedModel.objects.using(one.db).get()
    assert (model.method, {file["path"] for file in model.files}) == ("full", set(files))


@pytest.mark.parametrize(
    ("method", "files", "words"),
    [
        ("lora", WHOLE, "adapter_config.json is missing"),
        ("full", ARTIFACTS, "config.json is missing"),
        ("full", SHARDED | {SHARD: safetensors_bytes("other")}, "do not agree"),
        (
            "lora",
            ARTIFACTS | {"adapter_model.safetensors": A11},
            "embed_tokens.weight' (34 rows) is no LoRA weight",
        ),
    ],
    ids=["whole-for-lora", "adapter-for-full", "shards-unlike-index", "a11-embeddings"],
)
def test_files_that_do_not_fit_the_method_make_no_model(play, method, files, words):
    one = play(method=method)

    job = ended(one, files)

    assert (job.status, job.reason) == ("failed", "artifact_invalid")
    assert words in job.error
    assert not TrainedModel.objects.using(one.db).exists()
