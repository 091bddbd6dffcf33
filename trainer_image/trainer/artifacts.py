"""The finished model as files: weights, tokenizer, chat template, training.json. No pickles.

The weights are an adapter, or after a full fine-tune a whole checkpoint in one file or several.
"""

from __future__ import annotations

import hashlib
import json
import math
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import JobFailed

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .spec import JobSpec

ALLOWED_SUFFIXES = frozenset({".safetensors", ".json", ".jinja", ".txt", ".model"})
MAX_SHARD_SIZE = "5GB"  # the most that S3 takes in one PUT
MODEL_CARD = "README.md"  # PEFT writes a stub; publishing writes a real one


@dataclass(frozen=True)
class Artifact:
    """One file of the finished model; `path` is relative to the output folder."""

    path: str
    size_bytes: int
    sha256: str


def save_model(
    output: Path,
    spec: JobSpec,
    *,
    model: PreTrainedModel | PeftModel,
    tokenizer: PreTrainedTokenizerBase,
) -> None:
    """Write the finished model into `output`. Files of an earlier try are removed first."""
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir(parents=True)
    _check_weights(model)
    if spec.method == "full":
        _save_whole(model, output)
    else:
        _name_base_model(model, spec)
        model.save_pretrained(output, save_embedding_layers=False)
    tokenizer.save_pretrained(output)
    (output / MODEL_CARD).unlink(missing_ok=True)


def list_artifacts(output: Path, training: dict[str, Any]) -> list[Artifact]:
    """Write `training` as training.json, and return all files of the finished model by path."""
    text = json.dumps(training, indent=2, sort_keys=True, allow_nan=False)
    (output / "training.json").write_text(text + "\n", encoding="utf-8")
    return [_describe(output, path) for path in sorted(output.rglob("*")) if path.is_file()]


def _check_weights(model: PreTrainedModel | PeftModel) -> None:
    for parameter in model.parameters():
        if parameter.requires_grad and not math.isfinite(parameter.detach().sum().item()):
            raise JobFailed(
                "diverged", "The trained weights are not finite numbers: lower the learning_rate."
            )


def _save_whole(model: PreTrainedModel, output: Path) -> None:
    """All weights, the frozen ones too, in the number type of the base model."""
    model.to(model.config.dtype)
    model.save_pretrained(output, max_shard_size=MAX_SHARD_SIZE)


def _name_base_model(model: PeftModel, spec: JobSpec) -> None:
    """Name the public repository in adapter_config.json, not a folder of this machine."""
    config = model.peft_config["default"]
    config.base_model_name_or_path = spec.model
    config.revision = spec.revision if spec.model_source == "huggingface" else None
    config.inference_mode = True


def _describe(output: Path, path: Path) -> Artifact:
    if path.suffix not in ALLOWED_SUFFIXES:
        raise JobFailed("trainer_error", f"{path.name} is not a kind of file that is handed over.")
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return Artifact(path.relative_to(output).as_posix(), path.stat().st_size, digest)
