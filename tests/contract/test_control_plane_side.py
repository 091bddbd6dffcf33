"""What we send and what we understand are the contract's examples, and the trainer's own."""

import json
from dataclasses import fields
from pathlib import Path

import pytest

from tests.factories import end_job, make_dataset, make_job
from trainer import spec as trainers
from trainer.checkpoints import ingredients
from trainer.spec import Hyperparams, parse_spec
from training.catalog import base_model
from training.checkpoints import job_checkpoints
from training.contract import JobSpec, parse_report
from training.events import append_events
from training.hyperparams import DEFAULTS, HYPERPARAMS, METHODS, check_hyperparams, job_hyperparams
from training.runner.submit import build_spec
from training.series import read_series
from training.services.jobs import JobRequest, retry_job, start_job

CONTRACT = Path(__file__).resolve().parents[2] / "trainer_image" / "contract"
EXAMPLE = json.loads((CONTRACT / "job_spec.v1.json").read_text(encoding="utf-8"))
EVENTS = [json.loads(line) for line in (CONTRACT / "events.v1.jsonl").read_text().splitlines()]


def test_example_has_every_field_and_every_hyperparameter():
    assert set(EXAMPLE) == {field.name for field in fields(JobSpec)}
    assert set(EXAMPLE["hyperparams"]) | {"seed"} == set(HYPERPARAMS)
    assert check_hyperparams(EXAMPLE["hyperparams"]) == EXAMPLE["hyperparams"]


def test_both_sides_have_the_same_methods():
    assert METHODS == trainers.METHODS


def test_both_sides_have_the_same_hyperparameters_and_defaults():
    theirs = {field.name: field.default for field in fields(Hyperparams)}

    assert set(theirs) | {"seed"} == set(HYPERPARAMS)
    assert {name: theirs[name] for name in DEFAULTS} == DEFAULTS


@pytest.mark.django_db
def test_the_examples_reports_are_a_whole_run():
    job = make_job()

    for event in EVENTS:
        append_events(job.pk, [parse_report(event)], db="default")

    job.refresh_from_db()
    claim = EVENTS[-1]
    assert (job.outcome, job.last_step, job.final_loss) == ("completed", 2, claim["final_loss"])
    assert job.last_loss_nonfinite == "nan"
    assert [warning["code"] for warning in job.warnings] == ["examples_dropped"]
    (checkpoint,) = job_checkpoints(job, db="default")
    assert (checkpoint.step, checkpoint.eval_loss) == (claim["best_step"], claim["best_eval_loss"])
    assert checkpoint.is_best
    assert {"loss", "eval_loss", "memory_gib"} <= set(read_series(job, db="default"))


@pytest.mark.django_db
@pytest.mark.parametrize("method", METHODS)
def test_trainer_reads_every_value_of_a_job_as_it_was_sent(method):
    given = {"lr_scheduler": "constant", "packing": True, "eval_fraction": 0.25, "eval_steps": 3}
    defaults = base_model("smollm2-135m").defaults_of(method)
    values = job_hyperparams(given, method=method, model_defaults=defaults)
    dataset = make_dataset()
    job = make_job(method=method, hyperparams=values, dataset_sha256=dataset.sha256)

    spec = build_spec(job, "default")
    read = parse_spec(json.loads(spec.to_text()))

    assert set(json.loads(spec.to_text())) == set(EXAMPLE)
    assert read.seed == values["seed"]
    assert read.method == method
    for name in values.keys() - {"seed"}:
        assert getattr(read.hyperparams, name) == values[name]
    assert (read.hyperparams.lora_rank is None) is (method == "full")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("method", ["lora", "full"])
def test_retry_with_resume_is_of_the_same_make(method, fake_provider):
    """Else the trainer would refuse the first job's checkpoints."""
    dataset = make_dataset()
    given = {"packing": True, "eval_fraction": 0.2, "early_stopping_patience": 2}
    request = JobRequest(
        base_model="tiny", dataset=dataset.filename, method=method, hyperparams=given
    )
    first = start_job(request, db="default", user_id=1).job
    again = retry_job(end_job(first, "failed").pk, db="default", user_id=1, resume=True)

    texts = [build_spec(job, "default").to_text() for job in (first, again)]
    read = [parse_spec(json.loads(text)) for text in texts]

    assert again.hyperparams == first.hyperparams
    assert again.hyperparams.items() >= given.items()
    assert read[1].resume_from == read[0].checkpoint_dir
    assert ingredients(read[0]) == ingredients(read[1])
