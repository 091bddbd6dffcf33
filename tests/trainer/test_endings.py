"""How jobs end when they do not simply complete."""

import json
import signal

import pytest

from tests.trainer.jobs import CASES, JOB_SECONDS, chat_rows
from tests.waiting import eventually

LONG = 100_000  # steps: more than any test waits for
ROWS = chat_rows(("Which shelf holds the copper bolts?", "Shelf seven, left side."))


def test_d29_one_row_trains_its_steps(make_job):
    job = make_job(CASES / "D29-one.jsonl", num_train_steps=5)

    assert job.run() == 0
    assert job.statuses[-1] == "completed"
    assert job.events[-1]["steps"] == 5
    assert job.of_type("progress")[-1]["step"] == 5


def test_d21_all_rows_too_long_fail_before_the_first_step(make_job):
    job = make_job(CASES / "D21-all.jsonl")

    assert job.run() == 1
    assert job.statuses == ["running", "failed"]
    assert job.events[-1]["reason"] == "dataset_invalid"
    assert "longer than 256 tokens" in job.events[-1]["error"]
    assert job.of_type("progress") == []
    assert not (job.folder / "output").exists()


def test_d21_dropped_rows_are_reported_and_warned_of(make_job):
    job = make_job(CASES / "D21.jsonl", num_train_steps=1, logging_steps=1)

    assert job.run() == 0
    message = "1 of 3 examples dropped: longer than 256 tokens"
    assert job.of_type("dataset")[0]["message"] == message
    (warning,) = job.of_type("warning")
    assert (warning["code"], warning["message"]) == ("examples_dropped", message)
    assert job.events[-1]["num_examples"] == 2


def test_stop_file_ends_a_job_at_its_next_step(make_job):
    job = make_job(ROWS, num_train_steps=LONG)
    process = job.start()
    eventually(lambda: job.of_type("progress"), seconds=JOB_SECONDS)

    (job.folder / "stop").touch()

    assert process.wait(JOB_SECONDS) == 0
    assert job.statuses == ["running", "training", "cancelled"]
    assert not (job.folder / "output").exists()


def test_answer_to_a_report_ends_a_job_at_its_next_step(make_job, control_plane):
    job = make_job(ROWS, num_train_steps=LONG, callback_url=control_plane.callback_url)
    process = job.start()
    eventually(lambda: job.of_type("progress"), seconds=JOB_SECONDS)
    control_plane.stop = True

    assert process.wait(JOB_SECONDS) == 0
    assert job.statuses[-1] == "cancelled"
    assert list(control_plane.events.values()) == job.events


def test_stop_while_the_job_is_still_loading_ends_it_before_it_trains(make_job):
    job = make_job(ROWS, num_train_steps=LONG)
    (job.folder / "stop").touch()

    assert job.run() == 0
    assert job.statuses == ["running", "cancelled"]


def test_interrupted_job_says_nothing_final(make_job):
    job = make_job(ROWS, num_train_steps=LONG)
    process = job.start()
    eventually(lambda: job.of_type("progress"), seconds=JOB_SECONDS)

    process.send_signal(signal.SIGTERM)

    assert process.wait(JOB_SECONDS) == 128 + signal.SIGTERM
    assert job.statuses == ["running", "training"]


def test_diverged_job_keeps_its_last_good_checkpoint_and_says_so(make_job):
    job = make_job(ROWS, num_train_steps=50, hyperparams={"learning_rate": 1e36})

    assert job.run() == 1
    assert job.events[-1]["reason"] == "diverged"
    progress = job.of_type("progress")
    assert progress[-1]["loss"] is None
    assert progress[-1]["nonfinite"] == "nan"
    assert "not a finite number twice in a row" in job.events[-1]["error"]


def test_job_whose_weights_have_no_effect_fails_and_uploads_nothing(make_job, control_plane):
    job = make_job(
        ROWS,
        num_train_steps=2,
        hyperparams={"learning_rate": 1e-12},
        callback_url=control_plane.callback_url,
        uploads=control_plane.uploads_url,
    )

    assert job.run() == 1
    assert job.statuses == ["running", "training", "failed"]
    assert job.events[-1]["reason"] == "artifact_invalid"
    assert "have no effect" in job.events[-1]["error"]
    assert control_plane.files == {}


def test_job_with_held_out_rows_stops_early_and_hands_over_the_best_weights(make_job):
    pairs = [(f"What is the code of box {n}?", f"{n * 7919 % 10_000:04d}") for n in range(12)]
    job = make_job(
        chat_rows(*pairs),
        num_train_steps=60,
        hyperparams={"eval_fraction": 0.3, "eval_steps": 4, "early_stopping_patience": 2},
    )

    assert job.run() == 0
    completed, evals = job.events[-1], job.of_type("eval")
    best = min(evals, key=lambda one: one["eval_loss"])
    assert completed["status"] == "completed"
    assert completed["stopped_early_at"] == evals[-1]["step"] < 60
    assert completed["best_step"] == best["step"] == evals[-3]["step"]
    assert round(completed["best_eval_loss"], 4) == round(best["eval_loss"], 4)
    training = json.loads((job.folder / "output" / "training.json").read_text())
    assert training["result"]["best_step"] == best["step"]
    assert job.of_type("warning") == []


def test_job_ends_when_its_time_is_over(make_job):
    job = make_job(ROWS, num_train_steps=LONG, max_seconds=1)

    assert job.run() == 1
    assert job.events[-1]["reason"] == "run_timeout"
    assert "max_seconds" in job.events[-1]["error"]


def test_job_without_a_control_plane_completes_all_the_same(make_job):
    job = make_job(ROWS, callback_url=None, uploads=None, num_train_steps=2)

    assert job.run() == 0
    assert {file["path"] for file in job.events[-1]["files"]} == {
        path.name for path in (job.folder / "output").iterdir()
    }


@pytest.mark.parametrize(
    "change", [{"model_id": "unknown"}, {"revision": "0"}, {"model_source": "elsewhere"}]
)
def test_unknown_models_are_unavailable(make_job, change):
    job = make_job(ROWS, **change)

    assert job.run() == 1
    assert job.events[-1]["reason"] == "model_unavailable"
    assert "does not know" in job.events[-1]["error"]
