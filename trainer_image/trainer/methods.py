"""How the weights are tuned: the base model loaded, and what of it may change.

`lora` adds small matrices to the language model's linear layers and trains only those.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM

from .device import Device
from .errors import JobFailed

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .spec import JobSpec

# Towers that see and hear: text teaches them nothing, and an adapter there cannot be loaded
# by servers that drop them.
TOWER = re.compile(r"vision|audio|image|multi_modal")


def load_for_training(spec: JobSpec, model_dir: Path, device: Device) -> PeftModel:
    """The base model with fresh LoRA layers on the language model's linear layers."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=device.dtype)
    model.to(device.name)
    # Gemma 4 says False here, and gradient accumulation would then weigh short rows too much.
    model.accepts_loss_kwargs = True
    check_targets(model, spec.lora_target_pattern)
    config = LoraConfig(
        r=spec.hyperparams.lora_rank,
        lora_alpha=spec.hyperparams.lora_alpha,
        lora_dropout=spec.hyperparams.lora_dropout,
        target_modules=spec.lora_target_pattern,
        task_type="CAUSAL_LM",
    )
    return get_peft_model(model, config)


def check_targets(model: PreTrainedModel, pattern: str) -> None:
    """Raise JobFailed unless the pattern names layers, and only the language model's."""
    try:
        target = re.compile(pattern)
    except re.error as error:
        raise JobFailed(
            "trainer_error", f"lora_target_pattern is no regular expression: {error}."
        ) from error
    names = [name for name, _ in model.named_modules() if target.fullmatch(name)]
    if not names:
        raise JobFailed(
            "trainer_error", f"lora_target_pattern matches no layer of the model: {pattern}"
        )
    towers = [name for name in names if TOWER.search(name)]
    if towers:
        raise JobFailed(
            "trainer_error",
            f"lora_target_pattern also matches {len(towers)} layers outside the language model, "
            f"for example {towers[0]}.",
        )
