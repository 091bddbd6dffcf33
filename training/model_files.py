"""Which files make a trained model, by the method that made it, and what its weights are. Pure.

An adapter is LoRA matrices beside a base model; a full fine-tune is a whole model, in one
safetensors file or in several with an index.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from typing import Any

from training.hyperparams import ADAPTER_METHODS

ADAPTER_CONFIG, ADAPTER_WEIGHTS = "adapter_config.json", "adapter_model.safetensors"
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
MAX_INDEX_BYTES = 50_000_000  # a line of a hundred bytes for each of 500,000 tensors

Tensors = Mapping[str, Any]  # a safetensors header: entries by tensor name


class ModelFilesInvalid(ValueError):
    """The files make no model of this method; the message names the file."""


def check_paths(method: str, paths: Collection[str]) -> None:
    """Raise ModelFilesInvalid if a file is missing, or is one of another kind of model."""
    if method in ADAPTER_METHODS:
        needed, foreign = (ADAPTER_CONFIG, ADAPTER_WEIGHTS), (CONFIG, WEIGHTS, INDEX)
    else:
        weights = INDEX if INDEX in paths and WEIGHTS not in paths else WEIGHTS
        needed, foreign = (CONFIG, weights), (ADAPTER_CONFIG, ADAPTER_WEIGHTS)
    for name in needed:
        if name not in paths:
            raise ModelFilesInvalid(f"{name} is missing from the files of the trained model.")
    for name in foreign:
        if name in paths:
            raise ModelFilesInvalid(f"{name} is no file of a model that method {method} makes.")


def check_tensors(method: str, files: Mapping[str, Tensors], index: bytes | None) -> None:
    """Check what the safetensors files hold: `files` by path. Raises ModelFilesInvalid.

    `index` is the content of the index file, where there is one.
    """
    if method in ADAPTER_METHODS:
        _check_adapter(files[ADAPTER_WEIGHTS])
    elif index is not None:
        _check_index(index, files)
    elif not files[WEIGHTS]:
        raise ModelFilesInvalid(f"{WEIGHTS} holds no weights.")


def _check_adapter(tensors: Tensors) -> None:
    if not tensors:
        raise ModelFilesInvalid(f"{ADAPTER_WEIGHTS} holds no weights.")
    for name, tensor in tensors.items():
        if ".lora_" not in name:
            rows = tensor["shape"][0] if tensor["shape"] else 1
            raise ModelFilesInvalid(
                f"{ADAPTER_WEIGHTS}: {name[:200]!r} ({rows} rows) is no LoRA weight; "
                "an adapter holds nothing else."
            )


def _check_index(index: bytes, files: Mapping[str, Tensors]) -> None:
    """Every tensor lies in the file that the index names, and no file has others."""
    try:
        places = json.loads(index)["weight_map"]
        wanted: dict[str, set[str]] = {}
        for tensor, path in places.items():
            wanted.setdefault(path, set()).add(tensor)
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        raise ModelFilesInvalid(f"{INDEX} is damaged.") from error
    if not wanted:
        raise ModelFilesInvalid(f"{INDEX} names no weights.")
    for path in sorted(map(str, wanted)):
        if path not in files:
            raise ModelFilesInvalid(f"{INDEX} names {path[:200]!r}, which is missing.")
    for path, tensors in files.items():
        odd = wanted.get(path, set()) ^ set(tensors)
        if odd:
            raise ModelFilesInvalid(
                f"{INDEX} and {path} do not agree on {sorted(map(str, odd))[0][:200]!r}."
            )
