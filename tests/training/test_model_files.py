"""Which files make a model, and what its weights must be."""

import json
import re

import pytest

from training.model_files import ModelFilesInvalid, check_paths, check_tensors

TENSOR = {"dtype": "F32", "shape": [34, 8], "data_offsets": [0, 1088]}
ADAPTER = {"adapter_config.json", "adapter_model.safetensors", "tokenizer.json"}
WHOLE = {"config.json", "model.safetensors", "tokenizer.json"}
FIRST, SECOND = "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"
SHARDED = {"config.json", "model.safetensors.index.json", FIRST, SECOND}


@pytest.mark.parametrize(
    ("method", "paths"),
    [("lora", ADAPTER), ("qlora", ADAPTER), ("full", WHOLE), ("full", SHARDED)],
)
def test_files_of_each_kind(method, paths):
    check_paths(method, paths)


@pytest.mark.parametrize(
    ("method", "paths", "words"),
    [
        ("lora", set(), "adapter_config.json is missing"),
        ("lora", WHOLE, "adapter_config.json is missing"),
        ("qlora", ADAPTER - {"adapter_model.safetensors"}, "adapter_model.safetensors is missing"),
        ("lora", ADAPTER | WHOLE, "config.json is no file of a model that method lora makes"),
        ("full", set(), "config.json is missing"),
        ("full", ADAPTER, "config.json is missing"),
        ("full", {"config.json", FIRST}, "model.safetensors is missing"),
        ("full", WHOLE | ADAPTER, "adapter_config.json is no file of a model that method full"),
    ],
)
def test_files_of_another_kind_are_refused(method, paths, words):
    with pytest.raises(ModelFilesInvalid, match=re.escape(words)):
        check_paths(method, paths)


def index(**places):
    return json.dumps({"metadata": {}, "weight_map": places}).encode()


SHARDS = {FIRST: {"a": TENSOR}, SECOND: {"b": TENSOR}}


def test_weights_that_fit():
    check_tensors("lora", {"adapter_model.safetensors": {"q.lora_A.weight": TENSOR}}, None)
    check_tensors("full", {"model.safetensors": {"a": TENSOR}}, None)
    check_tensors("full", SHARDS, index(a=FIRST, b=SECOND))


@pytest.mark.parametrize(
    ("method", "files", "words"),
    [
        ("lora", {"adapter_model.safetensors": {}}, "holds no weights"),
        ("full", {"model.safetensors": {}}, "holds no weights"),
        (
            "lora",
            {"adapter_model.safetensors": {"model.embed_tokens.weight": TENSOR}},
            "'model.embed_tokens.weight' (34 rows) is no LoRA weight",
        ),
    ],
)
def test_weights_that_do_not_fit_are_named(method, files, words):
    with pytest.raises(ModelFilesInvalid, match=re.escape(words)):
        check_tensors(method, files, None)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (index(a=FIRST), "do not agree on 'b'"),
        (index(a=FIRST, b=FIRST), "do not agree on 'b'"),
        (index(a=FIRST, b=SECOND, c=SECOND), "do not agree on 'c'"),
        (index(a=FIRST, b="../x"), "names '../x', which is missing"),
        (index(), "names no weights"),
        (b"{", "is damaged"),
        (b"[]", "is damaged"),
        (b'{"weight_map": {"a": []}}', "is damaged"),
        (b'{"weight_map": ' + b"[" * 100_000, "is damaged"),
        (b"\xff", "is damaged"),
    ],
)
def test_an_index_that_does_not_fit_its_files_is_refused(content, words):
    with pytest.raises(ModelFilesInvalid, match=re.escape(words)):
        check_tensors("full", SHARDS, content)
