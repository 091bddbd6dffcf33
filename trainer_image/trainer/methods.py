"""How the weights are tuned: the base model loaded, and what of it may change.

`lora` adds small matrices to the language model's linear layers and trains only those.
`qlora` does the same on a base model whose linear layers are kept in four bits.
`full` trains every weight of the language model. Towers that see and hear never change.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoConfig, BitsAndBytesConfig

from .device import Device
from .errors import JobFailed
from .loading import check_shared_layers, load_model
from .sft_config import set_up_backend

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from .spec import JobSpec

# Towers that see and hear: text teaches them nothing, and an adapter there cannot be loaded
# by servers that drop them.
TOWER = re.compile(r"vision|visual|audio|image|multi_modal")


def load_for_training(
    spec: JobSpec, model_dir: Path, device: Device
) -> PreTrainedModel | PeftModel:
    """The base model with what the method trains, ready for the loop."""
    set_up_backend(device)
    model = _load(spec.method, model_dir, device)
    # Gemma 4 says False here, and gradient accumulation would then weigh short rows too much.
    model.accepts_loss_kwargs = True
    check_shared_layers(model)
    if spec.method == "full":
        freeze_towers(model)
        return model
    check_targets(model, spec.lora_target_pattern)
    return get_peft_model(model, lora_config(spec))


def _load(method: str, model_dir: Path, device: Device) -> PreTrainedModel:
    if method == "qlora":
        # Quantised while it is loaded, so it must go to the GPU at once.
        return load_model(
            model_dir, dtype=device.dtype, quantization=four_bits(), device_map={"": device.name}
        )
    # A full fine-tune moves weights by less than bfloat16 can tell apart (1 part in 256): they
    # are trained in float32, and computed with in the device's type by autocast.
    dtype = torch.float32 if method == "full" else device.dtype
    return load_model(model_dir, dtype=dtype).to(device.name)


def four_bits() -> BitsAndBytesConfig:
    """The number type of QLoRA (Dettmers et al. 2023, section 3): nf4, quantised twice.

    Only linear layers become four-bit. Embeddings stay in bfloat16, those per layer of
    Gemma 4's E models too, so there it saves less. PEFT's `prepare_model_for_kbit_training` is
    not used: it would turn all that stays into float32, 7 GB more for E4B. What else it does
    PEFT and the loop's settings do: freezing the base, and checkpointing that is not reentrant.
    """
    return BitsAndBytesConfig(
        load_in_4bit=True,
        bnb_4bit_quant_type="nf4",
        bnb_4bit_use_double_quant=True,
        bnb_4bit_compute_dtype=torch.bfloat16,
    )


def keep_adapter_exact(model: PreTrainedModel | PeftModel) -> None:
    """Undo TRL's cast of a QLoRA adapter to bfloat16: small updates would be rounded away.

    Called when the trainer is built and the optimizer is not.
    """
    if isinstance(model, PeftModel):
        for parameter in model.parameters():
            if parameter.requires_grad:
                parameter.data = parameter.data.float()


def lora_config(spec: JobSpec) -> LoraConfig:
    """What the spec asks of PEFT."""
    return LoraConfig(
        r=spec.hyperparams.lora_rank,
        lora_alpha=spec.hyperparams.lora_alpha,
        lora_dropout=spec.hyperparams.lora_dropout,
        target_modules=spec.lora_target_pattern,
        task_type="CAUSAL_LM",
    )


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


def freeze_towers(model: PreTrainedModel) -> None:
    """Let every weight train but those that see and hear."""
    for name, parameter in model.named_parameters():
        parameter.requires_grad = not TOWER.search(name)


def finish(spec: JobSpec, model: PreTrainedModel | PeftModel, model_dir: Path) -> None:
    """Round a full model to the number type of its base model, before anything is said of it.

    So what is checked afterwards is what is saved and served: a change that the type cannot hold
    is no change.
    """
    if spec.method != "full":
        return
    dtype = AutoConfig.from_pretrained(model_dir).dtype or torch.float32
    model.config.dtype = dtype  # in which it is saved
    for parameter in model.parameters():
        if parameter.requires_grad:
            parameter.data = parameter.data.to(dtype).to(parameter.dtype)
