"""What a run says of itself while it trains."""

import math
import os
import resource
from dataclasses import replace
from pathlib import Path

import pytest
from in_process import CPU, ROWS, Reports, chat_row, encode_rows, fine_tune, make_spec

from trainer.checkpoints import Best
from trainer.data import Examples
from trainer.errors import JobFailed
from trainer.evaluation import Validation
from trainer.keeper import Keeper
from trainer.methods import load_for_training
from trainer.progress import ProgressCallback
from trainer.rendering import IGNORED
from trainer.sft import build_trainer
from trainer.stop import StopSignal
from trainer.totals import RunningTotals, Totals


def test_the_first_and_the_last_step_report_whatever_the_interval(tiny_dir, tmp_path):
    every = fine_tune(tiny_dir, tmp_path / "every", num_train_steps=11)
    tuned = fine_tune(tiny_dir, tmp_path / "some", num_train_steps=11, logging_steps=4)

    progress = tuned.reports.of_type("progress")
    losses = every.reports.losses()
    assert [one["step"] for one in progress] == [1, 4, 8, 11]
    for one, (first, last) in zip(progress, ((1, 1), (2, 4), (5, 8), (9, 11)), strict=True):
        steps = range(first, last + 1)
        mean = sum(losses[step] for step in steps) / len(steps)
        assert one["loss"] == pytest.approx(mean, rel=1e-4)
    assert tuned.result.last_loss == pytest.approx(progress[-1]["loss"], rel=1e-5)
    assert tuned.result.final_loss == pytest.approx(sum(losses.values()) / 11, rel=1e-4)
    assert tuned.result.final_loss == every.result.final_loss


def test_progress_has_all_of_its_numbers(tiny_dir, tmp_path):
    tuned = fine_tune(tiny_dir, tmp_path, num_train_steps=3, warmup_ratio=0.34)

    first, second, last = tuned.reports.of_type("progress")
    assert set(second) == {
        "type",
        "step",
        "num_train_steps",
        "loss",
        "learning_rate",
        "epoch",
        "grad_norm",
        "tokens",
        "tokens_per_second",
        "mean_token_accuracy",
        "elapsed_seconds",
        "seconds_left",
        "memory_gib",
    }
    assert "seconds_left" not in first  # one step, with all that is done once, tells nothing
    assert second["seconds_left"] > 0
    assert last["seconds_left"] == 0
    assert first["learning_rate"] > 0
    assert 0.1 < last["memory_gib"] <= 64
    assert last["tokens"] == tuned.result.tokens
    for one in (first, second, last):
        assert all(value == float(f"{value:.6g}") for value in one.values() if type(value) is float)


def test_a_resumed_run_counts_all_tokens_but_only_its_own_speed(tiny_dir, tmp_path):
    settings = {"checkpoint_every": 4, "num_train_steps": 4}
    first = fine_tune(tiny_dir, tmp_path / "first", **settings)
    whole = fine_tune(tiny_dir, tmp_path / "whole", num_train_steps=6)

    resumed = fine_tune(
        tiny_dir, tmp_path / "more", num_train_steps=6, resume_from=first.spec.checkpoint_dir
    )

    (fifth, last) = resumed.reports.of_type("progress")
    assert resumed.reports.of_type("status")[0]["resumed_from_step"] == 4
    assert (fifth["step"], last["step"]) == (5, 6)
    assert last["tokens"] == whole.reports.of_type("progress")[-1]["tokens"]
    own = last["tokens"] - first.result.tokens
    assert last["tokens_per_second"] == pytest.approx(own / last["elapsed_seconds"], rel=1e-4)


@pytest.mark.parametrize("logging_steps", [1, 3, 50])
def test_a_loss_that_is_no_number_ends_the_run_at_its_second_step(
    tiny_dir, tmp_path, logging_steps
):
    reports = Reports()

    with pytest.raises(JobFailed, match="not a finite number twice in a row") as failure:
        fine_tune(
            tiny_dir,
            tmp_path,
            reports=reports,
            learning_rate=1e36,
            num_train_steps=40,
            checkpoint_every=1,
            logging_steps=logging_steps,
        )

    assert failure.value.reason == "diverged"
    assert math.isnan(reports.of_type("progress")[-1]["loss"])
    last_step = reports.of_type("progress")[-1]["step"]
    assert f"at steps {last_step - 1} and {last_step}" in failure.value.message
    # The last checkpoint is from before the first bad step.
    assert reports.of_type("checkpoint")[-1]["step"] == last_step - 2


def test_a_loss_of_exactly_zero_ends_the_run(tiny_dir, tiny_tokenizer, tmp_path):
    """Of examples without any label the loss is 0, and so is each gradient: nothing is learned."""
    spec, reports = make_spec(tmp_path, checkpoint_every=1), Reports()
    encoded = [
        replace(example, labels=[IGNORED] * len(example.labels))
        for example in encode_rows(tiny_tokenizer).encoded
    ]
    totals, keeper = RunningTotals(Totals()), Keeper(spec, reports)
    stop = StopSignal(tmp_path / "stop", max_seconds=600)
    validation = Validation(
        spec, [], keeper=keeper, reporter=reports, check=stop.check, best=Best()
    )
    trainer = build_trainer(
        spec,
        load_for_training(spec, tiny_dir, CPU),
        tokenizer=tiny_tokenizer,
        examples=Examples(encoded, 4, "", 256),
        device=CPU,
        totals=totals,
    )
    progress = ProgressCallback(reports, stop, totals=totals, validation=validation)
    trainer.watch(keeper, validation, progress)

    with pytest.raises(JobFailed, match="exactly zero twice in a row, at steps 1 and 2"):
        trainer.train()

    assert [one["loss"] for one in reports.of_type("progress")] == [0.0, 0.0]
    assert reports.of_type("checkpoint") == []


def test_a_loss_that_does_not_fall_is_warned_of_once(tiny_dir, tmp_path):
    tuned = fine_tune(tiny_dir, tmp_path, ROWS[:1], num_train_steps=4, learning_rate=0.0)

    (warning,) = tuned.reports.of_type("warning")
    assert warning["code"] == "loss_not_falling"
    assert warning["message"].startswith("The loss did not fall: 7.")


def test_a_loss_that_falls_is_not(tiny_dir, tmp_path):
    tuned = fine_tune(tiny_dir, tmp_path, num_train_steps=12)

    assert tuned.reports.of_type("warning") == []


@pytest.mark.parametrize("size", [300_000, 1000, 0], ids=["optimizer", "weights", "nothing"])
def test_a_full_disk_costs_a_checkpoint_and_not_the_run(tiny_dir, tmp_path, disk, size):
    class FillsUp(Reports):
        """The disk is full from the checkpoint of step 2 until after that of step 4."""

        def report(self, type, **fields):
            super().report(type, **fields)
            if type == "checkpoint" and fields["step"] == 2:
                disk.fill(size)
            if type == "progress" and fields["step"] == 5:
                disk.free()

    try:
        tuned = fine_tune(
            tiny_dir, tmp_path, reports=FillsUp(), num_train_steps=6, checkpoint_every=1
        )
    finally:
        disk.free()

    assert [one["step"] for one in tuned.reports.of_type("checkpoint")] == [1, 2, 5, 6]
    (warning,) = tuned.reports.of_type("warning")
    assert warning["code"] == "checkpoint_failed"
    assert "The checkpoint of step 3 could not be kept" in warning["message"]
    assert "MiB are free" in warning["message"]
    assert "it resumes from step 2" in warning["message"]
    names = {path.name for path in tmp_path.joinpath("checkpoints").iterdir()}
    assert names == {"checkpoint-5", "checkpoint-6"}
    assert tuned.result.steps == 6


def test_memory_that_is_not_there_is_named_with_the_step_and_what_to_change(tiny_dir, tmp_path):
    """The process may take 32 MiB more than it has when it begins its first step."""

    class TakesNoMore(Reports):
        def status(self, status, **fields):
            num_pages = int(Path("/proc/self/statm").read_text().split()[0])
            limit = num_pages * resource.getpagesize() + 32 * 2**20
            resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))

    rows = [chat_row("Why? " * 40, "Because. " * 20)] * 64
    child = os.fork()
    if child == 0:
        try:
            fine_tune(tiny_dir, tmp_path, rows, reports=TakesNoMore(), batch_size=64)
        except JobFailed as failure:
            resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2)
            (tmp_path / "failure").write_text(f"{failure.reason}: {failure.message}")
        finally:
            os._exit(0)
    os.waitpid(child, 0)

    said = (tmp_path / "failure").read_text()
    assert said.startswith("out_of_memory: The memory was not enough after 0 finished steps: lower")
    assert "batch_size (now 64)" in said
    assert "max_length (now 256)" in said
