"""Hyperparameters: each range, and what contradicts itself."""

import pytest

from gligabao.errors import InvalidRequest
from training.hyperparams import DEFAULTS, HYPERPARAMS, check_hyperparams, job_hyperparams

MODEL = {
    "learning_rate": 0.002, "lora_rank": 8, "lora_alpha": 16, "batch_size": 4,
    "max_length": 256, "seed": 7,
}  # fmt: skip


def values(given, method="lora"):
    return job_hyperparams(given, method=method, model_defaults=MODEL)


def refusal(given, method="lora"):
    with pytest.raises(InvalidRequest) as refused:
        values(given, method)
    return refused.value


@pytest.mark.parametrize(
    ("name", "good", "bad"),
    [
        ("learning_rate", (1e-8, 1), (0, 1.01, "0.1", True, float("nan"), float("inf"))),
        ("lora_rank", (1, 512), (0, 513, 1.0, 10**400)),
        ("lora_alpha", (1, 1024), (0, 1025)),
        ("lora_dropout", (0, 0.9), (-0.1, 1.0)),
        ("batch_size", (1, 256), (0, 257)),
        ("gradient_accumulation_steps", (1, 1024), (0, 1025)),
        ("max_length", (16, 131072), (15, 131073)),
        ("warmup_ratio", (0, 1), (-0.1, 1.1)),
        ("lr_scheduler", ("cosine", "linear", "constant"), ("step", "", None, [], 1)),
        ("weight_decay", (0, 1), (-1, 2)),
        ("max_grad_norm", (0, 1000), (-1, 1001)),
        ("packing", (True, False), (0, 1, "true", None)),
        ("seed", (0, 2**31 - 1), (-1, 2**31)),
        ("eval_fraction", (0, 0.5), (-0.1, 0.51)),
        ("eval_steps", (1, 1_000_000), (0, 1_000_001)),
        ("early_stopping_patience", (0, 1000), (-1, 1001)),
        ("checkpoint_every", (1, 1_000_000), (0, 1_000_001)),
        ("logging_steps", (1, 10_000), (0, 10_001)),
    ],
)
def test_range_of_each(name, good, bad):
    for value in good:
        assert check_hyperparams({name: value}) == {name: value}
    for value in bad:
        with pytest.raises(InvalidRequest) as refused:
            check_hyperparams({name: value})
        assert refused.value.errors[0]["path"] == f"hyperparams.{name}"
        assert HYPERPARAMS[name].words in refused.value.message


def test_every_fault_is_named():
    refused = refusal({"learning_rate": 9, "momentum": 0.9, "packing": "yes"})

    assert [(error["path"], error["code"]) for error in refused.errors] == [
        ("hyperparams.learning_rate", "out_of_range"),
        ("hyperparams.momentum", "unknown_field"),
        ("hyperparams.packing", "invalid"),
    ]


def test_job_has_every_value():
    assert values({}) == DEFAULTS | MODEL
    assert list(values({})) == list(HYPERPARAMS)
    assert values({"lora_rank": 4, "weight_decay": 0.1})["lora_rank"] == 4


def test_whole_numbers_become_the_numbers_that_they_are_meant_as():
    assert repr(values({"max_grad_norm": 2})["max_grad_norm"]) == "2.0"


def test_full_fine_tune_has_no_lora():
    assert not any(name.startswith("lora") for name in values({}, "full"))
    refused = refusal({"lora_rank": 8, "lora_dropout": 0.1}, "full")
    assert [error["path"] for error in refused.errors] == [
        "hyperparams.lora_rank", "hyperparams.lora_dropout",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({"early_stopping_patience": 2}, "early_stopping_patience"),
        ({"early_stopping_patience": 2, "eval_fraction": 0}, "early_stopping_patience"),
        ({"eval_steps": 10}, "eval_steps"),
    ],
)
def test_what_needs_held_out_examples_is_refused_without(given, place):
    refused = refusal(given)

    assert refused.errors[0]["path"] == f"hyperparams.{place}"
    assert "eval_fraction" in refused.message
    assert values({**given, "eval_fraction": 0.1})[place] == given[place]


@pytest.mark.parametrize("method", ["lora", "qlora", "full"])
def test_values_of_one_job_start_another(method):
    first = values({}, method)

    assert values(first, method) == first
