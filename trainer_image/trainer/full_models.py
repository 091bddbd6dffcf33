"""Fully tuned models: recognised, checked against their base model, and loaded.

Their folder is a whole checkpoint, where an adapter's has `adapter_config.json`. The class and
the shape come from the base model's configuration, never from the folder's own.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import AutoConfig

from . import adapters
from .adapters import AdapterInvalid, read_shapes
from .loading import load_and_compare

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel

CONFIG = "config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"  # names the files where there are several


def is_full_model(directory: Path) -> bool:
    """Whether the folder holds a whole model and no adapter."""
    has_weights = (directory / WEIGHTS).is_file() or (directory / INDEX).is_file()
    return has_weights and not (directory / adapters.CONFIG).exists()


def weight_files(directory: Path) -> list[Path]:
    """The files with the weights. Raises AdapterInvalid if the list of them is damaged."""
    if (directory / WEIGHTS).is_file():
        return [directory / WEIGHTS]
    try:
        content = json.loads((directory / INDEX).read_text(encoding="utf-8"))
        names = set(content["weight_map"].values())
        # Only files of this folder, whatever the list says.
        is_plain = all(Path(name).name == name for name in names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise AdapterInvalid(f"{INDEX} is damaged.") from error
    if not names or not is_plain:
        raise AdapterInvalid(f"{INDEX} is damaged.")
    return [directory / name for name in sorted(names)]


def load_full_model(directory: Path, base_dir: Path, *, dtype: torch.dtype) -> PreTrainedModel:
    """The tuned model, in the shape of its base model. Raises AdapterInvalid if it has another."""
    for path in weight_files(directory):
        read_shapes(path)  # says in words what is damaged
    try:
        model, found = load_and_compare(
            directory, dtype=dtype, config=AutoConfig.from_pretrained(base_dir)
        )
    except Exception as error:  # the libraries raise many kinds
        raise AdapterInvalid(
            f"The model's weights could not be loaded ({type(error).__name__})."
        ) from error
    problems = {
        "lacks": found.missing,
        "has in another size": found.other_sizes,
        "has beside the base model's": found.unexpected,
    }
    for verb, names in problems.items():
        if names:
            raise AdapterInvalid(
                f"The model does not fit its base model: it {verb} {len(names)} weights, "
                f"for example {names[0]}."
            )
    return model
