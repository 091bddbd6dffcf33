"""The finished files are proved to change the model, or the job fails and says why."""

import shutil

import pytest
import torch
from in_process import CPU, chat_row, encode_rows, fine_tune
from safetensors.torch import load_file, save_file

from trainer.artifacts import save_model
from trainer.device import Device
from trainer.effect import ask_base, measure_effect
from trainer.errors import JobFailed, Stopped
from trainer.loading import load_model
from trainer.rendering import Encoded

WEIGHTS = "adapter_model.safetensors"
FULL = {"method": "full", "learning_rate": 0.001}


def nothing():
    pass


@pytest.fixture
def finish(tiny_dir, tmp_path):
    """Train, save, perhaps change the files, and measure."""

    def finish(change=None, check=nothing, device=CPU, **settings):
        tuned = fine_tune(tiny_dir, tmp_path, device=device, **settings)
        output = tmp_path / "output"
        save_model(output, tuned.spec, model=tuned.result.model, tokenizer=tuned.tokenizer)
        if change:
            change(output)
        return measure_effect(
            tuned.result.base, tuned.result.model, output, model_dir=tiny_dir, check=check
        )

    return finish


@pytest.mark.parametrize("settings", [{}, FULL], ids=["lora", "full"])
def test_good_weights_have_an_effect_and_lower_the_loss(finish, settings):
    effect = finish(num_train_steps=6, **settings)

    assert effect.max_logit_difference > 100 * effect.needed_difference
    assert effect.tuned_loss < 0.9 * effect.base_loss
    assert effect.num_examples == 4
    assert 20 < effect.num_positions <= 4 * 16
    assert set(effect.report()) == {
        "max_logit_difference",
        "needed_difference",
        "base_loss",
        "tuned_loss",
        "num_examples",
        "num_positions",
    }


@pytest.mark.parametrize("settings", [{}, FULL], ids=["lora", "full"])
def test_one_step_is_effect_enough(finish, settings):
    effect = finish(num_train_steps=1, **settings)

    assert effect.max_logit_difference > effect.needed_difference


def test_one_step_is_effect_enough_in_bfloat16(finish):
    device = Device("cpu", torch.bfloat16, "a test")

    effect = finish(num_train_steps=1, learning_rate=0.001, device=device)

    assert effect.max_logit_difference > effect.needed_difference > 0.01


def change_weights(change):
    def apply(output):
        path = output / WEIGHTS
        save_file(change(load_file(path)), path)

    return apply


def zero_b(weights):
    return {name: w * 0 if "lora_B" in name else w for name, w in weights.items()}


def not_a_number(weights):
    return {name: w * float("nan") for name, w in weights.items()}


def of_other_layers(weights):
    return {name.replace(".layers.", ".blocks."): w for name, w in weights.items()}


def without_the_kind(weights):
    return {name.replace(".lora_", ".loha_"): w for name, w in weights.items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (change_weights(zero_b), r"no effect.*logits differ by 0 at most.*Raise the learning_rate"),
        (change_weights(not_a_number), "numbers that are not finite"),
        (change_weights(of_other_layers), "The base model has no layer .*blocks"),
        (change_weights(without_the_kind), "is not a LoRA weight"),
        (lambda output: (output / WEIGHTS).write_bytes(b"short"), "damaged"),
        (lambda output: (output / WEIGHTS).unlink(), "cannot be read"),
    ],
    ids=["zero", "nan", "other-names", "other-kind", "damaged", "missing"],
)
def test_an_adapter_that_changes_nothing_or_cannot_be_loaded_is_refused(finish, change, message):
    with pytest.raises(JobFailed, match=message) as failure:
        finish(change, num_train_steps=2)

    assert failure.value.reason == "artifact_invalid"


def use_base_weights(tiny_dir):
    def change(output):
        shutil.copy(tiny_dir / "model.safetensors", output / "model.safetensors")

    return change


def lose_a_weight(output):
    weights = load_file(output / "model.safetensors")
    name = next(name for name in weights if name.endswith("mlp.up_proj.weight"))
    del weights[name]
    save_file(weights, output / "model.safetensors", metadata={"format": "pt"})


def test_a_full_model_that_is_its_base_or_lacks_weights_is_refused(finish, tiny_dir):
    with pytest.raises(JobFailed, match="no effect") as failure:
        finish(use_base_weights(tiny_dir), num_train_steps=1, **FULL)
    assert failure.value.reason == "artifact_invalid"

    with pytest.raises(JobFailed, match=r"lacks 1 weights, for example .*mlp\.up_proj") as failure:
        finish(lose_a_weight, num_train_steps=1, **FULL)
    assert failure.value.reason == "artifact_invalid"


@pytest.mark.parametrize("method", ["lora", "full"])
def test_a_learning_rate_that_moves_nothing_fails_with_what_to_do(finish, method):
    with pytest.raises(JobFailed, match="Raise the learning_rate or num_train_steps") as failure:
        finish(num_train_steps=2, learning_rate=1e-12, method=method)

    assert failure.value.reason == "artifact_invalid"


def test_a_stop_is_heard_while_the_effect_is_measured(finish):
    def stop():
        raise Stopped

    with pytest.raises(Stopped):
        finish(check=stop, num_train_steps=1)


def test_examples_without_a_token_to_predict_are_passed_over(tiny_dir, tiny_tokenizer):
    model = load_model(tiny_dir, dtype=torch.float32)
    good = encode_rows(tiny_tokenizer).encoded[0]
    single = Encoded([5], [5])

    assert len(ask_base(model, [single, good, single], check=nothing).examples) == 1
    with pytest.raises(JobFailed, match="No example holds a token") as failure:
        ask_base(model, [single], check=nothing)
    assert failure.value.reason == "dataset_invalid"


def test_of_long_answers_only_the_first_tokens_are_compared(tiny_dir, tmp_path):
    rows = [chat_row(f"Question {i}?", "An answer of many words. " * 9) for i in range(20)]

    tuned = fine_tune(tiny_dir, tmp_path, rows, num_train_steps=1)

    base = tuned.result.base
    assert len(base.logits) == 8
    assert {logits.shape[0] for logits in base.logits} == {16}
