"""Held-out examples: an exact loss, no trace in the training, the best weights, early stopping."""

import math
from contextlib import nullcontext

import pytest
import torch
from in_process import CPU, ROWS, Reports, chat_row, encode_rows, fine_tune, make_spec
from transformers import AutoModelForCausalLM

from trainer.checkpoints import Best
from trainer.errors import Stopped
from trainer.evaluation import Validation, evaluate
from trainer.keeper import Keeper
from trainer.methods import load_for_training

# Answers that contradict the trained ones: the better the training, the worse this loss.
OPPOSED = [
    chat_row("Which shelf holds the copper bolts?", "Nobody knows."),
    chat_row("Who signs the delivery slip, and when, and where?", "It is never signed at all."),
]
# The steps are enough to learn the rows by heart, so the held-out loss falls and then rises.
OVERFITTING = {"num_train_steps": 30, "eval_steps": 3, "learning_rate": 0.02}


def weights_of(model):
    return {
        name: weight.detach().clone()
        for name, weight in model.named_parameters()
        if weight.requires_grad
    }


def is_equal(some, others):
    return all(torch.equal(some[name], others[name]) for name in some)


def loss_by_rows(model, examples):
    """The plain definition: one row at a time, all logits, the mean over all label tokens."""
    losses = []
    for example in examples:
        with torch.no_grad():
            logits = model(input_ids=torch.tensor([example.input_ids])).logits[0, :-1].float()
        targets = torch.tensor(example.labels[1:])
        each = torch.nn.functional.cross_entropy(logits, targets, reduction="none")
        losses += each[targets != -100].tolist()
    return math.fsum(losses) / len(losses), len(losses)


def test_the_loss_is_the_mean_over_tokens_whatever_the_batches(tiny_dir, tiny_tokenizer):
    model = AutoModelForCausalLM.from_pretrained(tiny_dir, dtype=torch.float32).eval()
    examples = encode_rows(tiny_tokenizer, [*ROWS, *OPPOSED]).encoded
    expected, num_tokens = loss_by_rows(model, examples)

    for batches in ([[one] for one in examples], [examples[:5], examples[5:]]):
        result = evaluate(model, batches, number_type=nullcontext, check=lambda: None)

        assert abs(result.loss - expected) < 1e-5
        assert result.num_tokens == num_tokens
        assert 0.0 <= result.accuracy <= 1.0


def test_training_is_the_same_to_the_last_bit_with_and_without_evaluations(tiny_dir, tmp_path):
    settings = {"num_train_steps": 6, "lora_dropout": 0.3, "checkpoint_every": 100}
    without = fine_tune(tiny_dir, tmp_path / "without", **settings)
    evaluated = fine_tune(tiny_dir, tmp_path / "with", held_out=ROWS[:2], eval_steps=2, **settings)

    assert evaluated.reports.losses() == without.reports.losses()
    assert evaluated.result.final_loss == without.result.final_loss
    # The same rows were held out as trained: the last weights are the best ones.
    assert evaluated.result.best.step == 6
    assert is_equal(weights_of(evaluated.result.model), weights_of(without.result.model))


def test_evaluations_come_at_their_interval_and_at_the_end(tiny_dir, tmp_path):
    tuned = fine_tune(
        tiny_dir, tmp_path, held_out=OPPOSED, num_train_steps=5, eval_steps=2, checkpoint_every=2
    )

    evals = tuned.reports.of_type("eval")
    assert [one["step"] for one in evals] == [2, 4, 5]
    assert {one["eval_tokens"] for one in evals} == {
        sum(
            label != -100
            for row in encode_rows(tuned.tokenizer, OPPOSED).encoded
            for label in row.labels
        )
    }
    checkpoints = {one["step"]: one for one in tuned.reports.of_type("checkpoint")}
    for one in evals:
        assert checkpoints[one["step"]]["eval_loss"] == one["eval_loss"]
        assert checkpoints[one["step"]]["is_best"] == one["is_best"]
    kinds = [one["type"] for one in tuned.reports.all if one.get("step") == 4]
    assert kinds == ["progress", "eval", "checkpoint"]


def test_without_a_split_nothing_is_said_of_it(tiny_dir, tmp_path):
    tuned = fine_tune(
        tiny_dir, tmp_path, num_train_steps=2, eval_steps=1, early_stopping_patience=1
    )

    assert tuned.reports.of_type("eval") == []
    assert "is_best" not in tuned.reports.of_type("checkpoint")[0]
    assert tuned.result.best == Best()
    assert tuned.result.stopped_early_at is None


@pytest.mark.parametrize("method", ["lora", "full"])
def test_the_best_weights_are_handed_over_and_not_the_last(tiny_dir, tmp_path, method):
    learning_rate = 0.02 if method == "lora" else 0.002
    settings = OVERFITTING | {"method": method, "learning_rate": learning_rate}
    tuned = fine_tune(tiny_dir, tmp_path, held_out=OPPOSED, **settings)

    evals = {one["step"]: one["eval_loss"] for one in tuned.reports.of_type("eval")}
    best = min(evals, key=evals.get)
    assert best < 30
    assert tuned.result.best.step == best
    assert tuned.result.stopped_early_at is None
    held_out = encode_rows(tuned.tokenizer, OPPOSED).encoded
    tuned.result.model.eval()
    found, _ = loss_by_rows(tuned.result.model, held_out)
    assert found == pytest.approx(evals[best], rel=1e-3)
    assert [one["step"] for one in tuned.reports.of_type("eval") if one["is_best"]][-1] == best


def test_training_stops_once_the_patience_is_over(tiny_dir, tmp_path):
    tuned = fine_tune(
        tiny_dir,
        tmp_path,
        held_out=OPPOSED,
        early_stopping_patience=2,
        logging_steps=50,
        checkpoint_every=3,
        **OVERFITTING,
    )

    evals = [one["step"] for one in tuned.reports.of_type("eval")]
    stopped = tuned.result.stopped_early_at
    assert stopped == evals[-1] < 30
    assert tuned.result.best.step == evals[-3]
    assert tuned.result.steps == stopped
    assert tuned.reports.of_type("progress")[-1]["step"] == stopped
    # From a checkpoint of the last evaluation a resumed run would have nothing left to do.
    assert tuned.reports.of_type("checkpoint")[-1]["step"] == stopped - 3

    again = fine_tune(
        tiny_dir,
        tmp_path,
        held_out=OPPOSED,
        early_stopping_patience=2,
        logging_steps=50,
        checkpoint_every=3,
        **OVERFITTING,
    )

    assert again.result.stopped_early_at == stopped
    assert again.result.best == tuned.result.best
    assert is_equal(weights_of(again.result.model), weights_of(tuned.result.model))


def test_a_stop_is_heard_between_two_batches_of_an_evaluation(tiny_dir, tiny_tokenizer, tmp_path):
    spec, reports = make_spec(tmp_path, batch_size=1), Reports()
    calls = []

    def check():
        calls.append(1)
        if len(calls) == 2:
            raise Stopped

    validation = Validation(
        spec,
        encode_rows(tiny_tokenizer).encoded,
        keeper=Keeper(spec, reports),
        reporter=reports,
        check=check,
        best=Best(),
    )
    model = load_for_training(spec, tiny_dir, CPU)
    model.train()

    with pytest.raises(Stopped):
        validation.run(model, 3, nullcontext)

    assert model.training
    assert reports.all == []


def test_best_weights_that_were_damaged_are_not_handed_over(tiny_dir, tmp_path):
    class Damage(Reports):
        def report(self, type, **fields):
            super().report(type, **fields)
            if type == "progress" and fields["step"] == 30:
                for path in tmp_path.glob("checkpoints/best-*/weights.safetensors"):
                    path.write_bytes(path.read_bytes()[:-4] + b"oops")

    tuned = fine_tune(tiny_dir, tmp_path, held_out=OPPOSED, reports=Damage(), **OVERFITTING)

    (warning,) = tuned.reports.of_type("warning")
    assert warning["code"] == "best_weights_lost"
    assert "weights.safetensors was changed or damaged" in warning["message"]
    assert tuned.result.best == Best()
