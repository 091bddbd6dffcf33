"""Only a signed, current and understood spec is run; all else ends before anything is loaded."""

import json
from datetime import UTC, datetime

import pytest

from tests.trainer.jobs import TRAINER_IMAGE, chat_rows
from trainer.errors import SpecRefused
from trainer.spec import parse_spec

EXAMPLE = json.loads((TRAINER_IMAGE / "contract" / "job_spec.v1.json").read_text())
NOW = datetime(2026, 12, 1, tzinfo=UTC)
HEAVY = ("torch", "transformers", "peft", "trl")


def test_example_of_the_contract_is_understood():
    spec = parse_spec(EXAMPLE, now=NOW)

    assert spec.job_id == EXAMPLE["job_id"]
    assert spec.hyperparams.learning_rate == 0.001
    assert spec.hyperparams.checkpoint_every == 50


def test_published_fields_hold_no_secret_and_no_folder():
    public = json.dumps(parse_spec(EXAMPLE, now=NOW).public_fields())

    assert EXAMPLE["job_token"] not in public
    assert EXAMPLE["nonce"] not in public
    assert "http://" not in public
    assert "/data/" not in public


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"contract": 2}, "understands contract 1"),
        ({"expires_at": "2026-11-30T23:59:59Z"}, "expired at"),
        ({"expires_at": "soon"}, "not a time"),
        ({"expires_at": "2027-01-01T00:00:00"}, "no time zone"),
        ({"method": "dpo"}, "no method 'dpo'"),
        ({"num_train_steps": 0}, "num_train_steps"),
        ({"num_train_steps": True}, "num_train_steps"),
        ({"max_seconds": "7200"}, "max_seconds"),
        ({"seed": -1}, "seed"),
        ({"model_id": "../escape"}, "not a plain name"),
        ({"revision": ""}, "not a plain name"),
        ({"dataset_path": None}, "dataset_path is missing"),
        ({"hyperparams": []}, "must be an object"),
        ({"hyperparams": {**EXAMPLE["hyperparams"], "lora_rank": 0}}, "lora_rank"),
        ({"hyperparams": {**EXAMPLE["hyperparams"], "lora_rank": None}}, "lora needs lora_rank"),
        ({"hyperparams": {**EXAMPLE["hyperparams"], "learning_rate": "x"}}, "learning_rate"),
        (
            {"hyperparams": {**EXAMPLE["hyperparams"], "packing": 1}},
            "packing must be true or false",
        ),
        ({"hyperparams": {**EXAMPLE["hyperparams"], "lr_scheduler": "step"}}, "one of cosine"),
        ({"hyperparams": {**EXAMPLE["hyperparams"], "warmup_ratio": -0.1}}, "warmup_ratio"),
        ({"hyperparams": {**EXAMPLE["hyperparams"], "momentum": 0.9}}, "momentum"),
    ],
)
def test_specs_that_cannot_be_run_are_refused(change, words):
    with pytest.raises(SpecRefused, match=words):
        parse_spec(EXAMPLE | change, now=NOW)


def test_missing_fields_are_named():
    with pytest.raises(SpecRefused, match="job_id"):
        parse_spec({name: EXAMPLE[name] for name in EXAMPLE if name != "job_id"}, now=NOW)


@pytest.fixture
def loaded_modules():
    """The modules that a process imported, from the log of `-X importtime`."""

    def read(log: str) -> set[str]:
        lines = [line for line in log.splitlines() if line.startswith("import time:")]
        return {line.rpartition("|")[2].strip() for line in lines}

    return read


def test_wrong_signature_is_refused_before_anything_is_loaded(make_job, loaded_modules):
    job = make_job(chat_rows(("A?", "B.")))

    code = job.run("-X", "importtime", signed_with="another key")

    assert code == 2
    assert "The signature of the spec is wrong" in job.log
    assert not loaded_modules(job.log) & set(HEAVY)
    assert job.events == []


def test_unsigned_spec_is_refused(make_job):
    job = make_job(chat_rows(("A?", "B.")))
    (job.folder / "bare.json").write_text(json.dumps(job.spec))

    code = job.run(GLIGABAO_SPEC_KEY="")  # signed, but there is no key to check it with

    assert code == 2
    assert "no key to check the spec with" in job.log


def test_expired_spec_is_refused(make_job):
    job = make_job(chat_rows(("A?", "B.")), expires_at="2026-01-01T00:00:00Z")

    assert job.run() == 2
    assert "The spec expired at 2026-01-01T00:00:00Z" in job.log
    assert job.events == []


def test_key_may_come_from_a_file(make_job, tmp_path):
    key_file = tmp_path / "spec_key"
    key_file.write_text("the key in the file\n")
    job = make_job(chat_rows(("A?", "B.")), model_id="unknown")

    code = job.run(
        signed_with="the key in the file",
        GLIGABAO_SPEC_KEY="",
        GLIGABAO_SPEC_KEY_FILE=str(key_file),
    )

    assert code == 1
    assert job.statuses == ["running", "failed"]
    assert job.events[-1]["reason"] == "model_unavailable"
