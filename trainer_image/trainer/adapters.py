"""Checks a LoRA adapter against its base model before it is loaded.

A library would answer with a page of tensor names, or load nothing and say nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedModel

WEIGHTS = "adapter_model.safetensors"
CONFIG = "adapter_config.json"
PREFIX = "base_model.model."
MAX_HEADER_BYTES = 100_000_000  # the limit of the safetensors library itself

Shape = tuple[int, ...]


class AdapterInvalid(Exception):
    """The adapter, or the fully tuned model, does not fit this base model or is damaged."""


def check_adapter(directory: Path, model: PreTrainedModel) -> None:
    """Raise AdapterInvalid unless every tensor of the adapter has its place in the model."""
    _check_config(directory / CONFIG)
    modules = dict(model.named_modules())
    num_layers = 0
    for name, shape in read_shapes(directory / WEIGHTS).items():
        module_name, _, kind = name.removeprefix(PREFIX).partition(".lora_")
        if not kind:
            _refuse_other_weights(name, shape, model)
        module = modules.get(module_name)
        if module is None:
            raise AdapterInvalid(f"The base model has no layer {module_name}.")
        _check_layer(module_name, shape, module, is_input=kind.startswith("A"))
        num_layers += 1
    if not num_layers:
        raise AdapterInvalid("The adapter holds no LoRA weights.")


def _check_config(path: Path) -> None:
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        kind = config["peft_type"]
    except FileNotFoundError as error:
        raise AdapterInvalid(f"{CONFIG} is missing.") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise AdapterInvalid(f"{CONFIG} is damaged.") from error
    if kind != "LORA":
        raise AdapterInvalid(f"The adapter is of kind {kind!r}, only LORA is supported.")


def _check_layer(name: str, shape: Shape, module: Any, *, is_input: bool) -> None:
    """lora_A (r, in_features) and lora_B (out_features, r) must fit the layer."""
    if len(shape) != 2 or not hasattr(module, "in_features"):
        raise AdapterInvalid(f"{name} is not a linear layer that LoRA can extend.")
    found = shape[1] if is_input else shape[0]
    wanted = module.in_features if is_input else module.out_features
    if found != wanted:
        side = "inputs" if is_input else "outputs"
        raise AdapterInvalid(f"{name} has {found} {side}, the base model has {wanted}.")


def _refuse_other_weights(name: str, shape: Shape, model: PreTrainedModel) -> None:
    if "embed_tokens" in name and shape:
        rows = model.get_input_embeddings().weight.shape[0]
        raise AdapterInvalid(
            f"embed_tokens has {shape[0]} rows, the base model has {rows}: "
            "adapters with their own embeddings are not supported."
        )
    raise AdapterInvalid(f"{name} is not a LoRA weight.")


def read_shapes(path: Path) -> dict[str, Shape]:
    """The tensors of a safetensors file, by name; only its header is read."""
    try:
        with path.open("rb") as file:
            (length,) = struct.unpack("<Q", file.read(8))
            if length > MAX_HEADER_BYTES:
                raise AdapterInvalid(f"{path.name} is damaged: its header is too long.")
            header = json.loads(file.read(length))
        return dict(_shapes(header))
    except OSError as error:
        raise AdapterInvalid(f"{path.name} cannot be read: {error.strerror}.") from error
    except (struct.error, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise AdapterInvalid(f"{path.name} is damaged: its header cannot be read.") from error


def _shapes(header: Mapping[str, Any]) -> Iterator[tuple[str, Shape]]:
    for name, entry in header.items():
        if name != "__metadata__":
            yield name, tuple(int(size) for size in entry["shape"])
