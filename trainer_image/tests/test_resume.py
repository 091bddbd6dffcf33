"""A run that was killed goes on as if nothing had been.

The kills are real: a child process dies at a random moment of its CPU time, wherever the loop
is, as often as the seed says, and the last one trains to the end.
"""

import json
import os
import random
import signal
import time
from dataclasses import asdict

import pytest
from in_process import Reports, chat_row, fine_tune

HELD_OUT = [chat_row("Where is the lamp?", "On the table."), chat_row("A?", "Yes, of course.")]
# Odd numbers everywhere: checkpoints, reports and epochs end at different steps.
SETTINGS = {
    "num_train_steps": 14,
    "batch_size": 1,
    "gradient_accumulation_steps": 3,
    "lora_dropout": 0.2,
    "warmup_ratio": 0.2,
    "checkpoint_every": 3,
    "logging_steps": 2,
}
WITH_EVALUATION = {"held_out": HELD_OUT, "eval_steps": 4}
PACKED = {"packing": True, "batch_size": 2, "max_length": 96, "gradient_accumulation_steps": 1}
NUM_KILLS = 2


def outcome(tuned):
    """All that a run leaves behind, as JSON holds it: to the last bit."""
    weights = {
        name: weight.detach().flatten().tolist()
        for name, weight in tuned.result.model.named_parameters()
        if weight.requires_grad
    }
    numbers = asdict(tuned.result.best) | {
        name: getattr(tuned.result, name) for name in ("steps", "tokens", "final_loss", "last_loss")
    }
    said = {
        kind: {one["step"]: one[field] for one in tuned.reports.of_type(kind)}
        for kind, field in (("progress", "loss"), ("eval", "eval_loss"))
    }
    start = tuned.reports.of_type("status")[0].get("resumed_from_step", 0)
    text = json.dumps({"weights": weights, "numbers": numbers, "said": said, "start": start})
    return json.loads(text)


class KilledLater(Reports):
    """Dies so many seconds of CPU time after the first step began; None: only takes the time."""

    def __init__(self, seconds):
        super().__init__()
        self._seconds = seconds
        self.started = 0.0

    def status(self, status, **fields):
        super().status(status, **fields)
        self.started = time.process_time()
        if self._seconds:
            # By default SIGPROF ends a process at once, as SIGKILL does; no handler is set.
            signal.setitimer(signal.ITIMER_PROF, self._seconds)


def run_in_child(model_dir, folder, settings, *, killed_after=None):
    """The outcome of a run in a process of its own, or None if it was killed."""
    folder.mkdir(exist_ok=True)
    child = os.fork()
    if child == 0:
        try:
            reports = KilledLater(killed_after)
            found = outcome(fine_tune(model_dir, folder, reports=reports, **settings))
            found["seconds"] = time.process_time() - reports.started
            (folder / "outcome.json").write_text(json.dumps(found))
            os._exit(0)
        finally:
            os._exit(1)
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        assert os.WTERMSIG(status) == signal.SIGPROF
        return None
    assert os.WEXITSTATUS(status) == 0
    return json.loads((folder / "outcome.json").read_text())


@pytest.mark.parametrize(
    ("seed", "more"), [(1, {}), (2, WITH_EVALUATION), (3, PACKED)], ids=["plain", "eval", "packed"]
)
def test_killed_at_random_moments_a_run_ends_as_if_it_had_not_been(tiny_dir, tmp_path, seed, more):
    settings = SETTINGS | more
    whole = run_in_child(tiny_dir, tmp_path / "whole", settings)
    moments = random.Random(seed)

    for _ in range(NUM_KILLS):
        moment = moments.uniform(0.4, 0.9) * whole["seconds"]
        run_in_child(tiny_dir, tmp_path / "killed", settings, killed_after=moment)
    resumed = run_in_child(tiny_dir, tmp_path / "killed", settings)

    assert resumed["start"] > 0
    assert resumed["weights"] == whole["weights"]
    assert resumed["numbers"] == whole["numbers"]
    for kind, said in resumed["said"].items():
        assert said.items() <= whole["said"][kind].items()
        assert said.keys() >= {one for one in whole["said"][kind] if int(one) > resumed["start"]}


class KilledAtCheckpoint(Reports):
    """Ends the run right after the checkpoint of a step."""

    def __init__(self, step):
        super().__init__()
        self._step = step

    def report(self, type, **fields):
        super().report(type, **fields)
        if type == "checkpoint" and fields["step"] == self._step:
            raise KeyboardInterrupt


def test_every_checkpoint_leads_to_the_same_end(tiny_dir, tmp_path):
    whole = outcome(fine_tune(tiny_dir, tmp_path / "whole", **SETTINGS))

    for step in (3, 12):  # in the middle of an epoch, and at the end of one
        with pytest.raises(KeyboardInterrupt):
            fine_tune(tiny_dir, tmp_path / f"{step}", reports=KilledAtCheckpoint(step), **SETTINGS)
        resumed = outcome(fine_tune(tiny_dir, tmp_path / f"{step}", **SETTINGS))

        assert resumed["start"] == step
        assert resumed["weights"] == whole["weights"]
        assert resumed["numbers"] == whole["numbers"]


@pytest.mark.parametrize("method", ["lora", "full"])
def test_a_run_that_was_over_but_for_its_upload_trains_no_step_again(tiny_dir, tmp_path, method):
    settings = WITH_EVALUATION | {"num_train_steps": 5, "method": method, "learning_rate": 0.001}
    first = outcome(fine_tune(tiny_dir, tmp_path, **settings))

    again = fine_tune(tiny_dir, tmp_path, **settings)

    (progress,) = again.reports.of_type("progress")
    assert (progress["step"], progress["seconds_left"]) == (5, 0)
    assert progress["loss"] == pytest.approx(again.result.last_loss, rel=1e-5)
    found = outcome(again)
    assert found["start"] == 5
    assert found["weights"] == first["weights"]
    assert found["numbers"] == first["numbers"]


def test_another_job_resumes_only_what_was_made_as_it_is(tiny_dir, tmp_path):
    first = fine_tune(tiny_dir, tmp_path / "first", num_train_steps=2)
    resume = {"resume_from": first.spec.checkpoint_dir, "num_train_steps": 4}

    other = fine_tune(tiny_dir, tmp_path / "other", lora_rank=4, **resume)

    (warning,) = other.reports.of_type("warning")
    assert warning["code"] == "checkpoint_skipped"
    assert "lora_rank is 8 there and 4 here" in warning["message"]
    assert "resumed_from_step" not in other.reports.of_type("status")[0]
    assert [one["step"] for one in other.reports.of_type("progress")] == [1, 2, 3, 4]
