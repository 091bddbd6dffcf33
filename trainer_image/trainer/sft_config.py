"""The settings of TRL's trainer, each choice with its reason.

Most of what makes a GPU fast is chosen here; how attention is computed is in `loading.py`, the
loss in `label_loss.py`. Where a reason is a figure, its source stands beside it.
"""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import torch
from trl import SFTConfig

from .device import Device

if TYPE_CHECKING:
    from .spec import JobSpec

KEPT_CHECKPOINTS = 2  # the newest, and one more in case that one is cut off
# AdamW keeps 8 bytes for each weight that trains: from here on more than 16 GB.
MANY_TRAINED_WEIGHTS = 2_000_000_000


def build_config(
    spec: JobSpec, device: Device, *, num_trainable: int = 0, is_packed: bool = False
) -> SFTConfig:
    """What the spec asks for, and what this device does best."""
    values = spec.hyperparams
    return SFTConfig(
        output_dir=spec.checkpoint_dir,
        max_steps=spec.num_train_steps,
        per_device_train_batch_size=values.batch_size,
        gradient_accumulation_steps=values.gradient_accumulation_steps,
        learning_rate=values.learning_rate,
        lr_scheduler_type=values.lr_scheduler,
        warmup_steps=int(values.warmup_ratio * spec.num_train_steps),
        weight_decay=values.weight_decay,
        max_grad_norm=values.max_grad_norm,
        logging_steps=values.logging_steps,
        logging_nan_inf_filter=False,  # it would hide a loss that is not a number
        save_steps=values.checkpoint_every,
        save_total_limit=KEPT_CHECKPOINTS,
        seed=spec.seed,
        data_seed=spec.seed,
        disable_tqdm=True,
        report_to="none",
        optim=choose_optimizer(device, num_trainable),
        **packing_settings(spec, is_packed=is_packed),
        **precision_settings(device),
        **device_settings(device),
    )


def choose_optimizer(device: Device, num_trainable: int) -> str:
    """AdamW in one kernel for all weights; with states in eight bits where they are very many.

    Eight bits take 2 bytes for each weight instead of 8 (Dettmers et al. 2021, block-wise). For an
    adapter, of 31B too, that saves less than a gigabyte, so adapters keep the exact states.
    """
    is_large = num_trainable > MANY_TRAINED_WEIGHTS
    if device.name == "cuda" and is_large and find_spec("bitsandbytes"):
        return "adamw_8bit"
    return "adamw_torch_fused"


def packing_settings(spec: JobSpec, *, is_packed: bool) -> dict[str, Any]:
    """Several examples in one row, best fit first: no padding is computed, and none is cut.

    TRL then gives the model positions that start anew with each example, and no attention mask.
    Every example is shorter than `max_length` already; without packing nothing needs to be cut.
    """
    if not is_packed:
        return {"max_length": None}
    return {"packing": True, "packing_strategy": "bfd", "max_length": spec.hyperparams.max_length}


def precision_settings(device: Device) -> dict[str, Any]:
    """Compute in bfloat16 by autocast where the device has it; what trains stays float32.

    An update of less than 1 part in 256 would be lost in weights of bfloat16. Of an adapter the
    small matrices are cast for each step then, not the large inputs (see `loop.py`).
    """
    return {"bf16": device.dtype == torch.bfloat16, "fp16": False}


def device_settings(device: Device) -> dict[str, Any]:
    """Where it runs, and what memory there is traded for time."""
    if device.name == "cpu":
        # Memory is not what a CPU lacks, and computing everything twice costs a third.
        return {"use_cpu": True, "gradient_checkpointing": False, "dataloader_pin_memory": False}
    return {
        "use_cpu": False,
        "gradient_checkpointing": True,
        # Never reentrant: where layers share keys and values its gradients are wrong, by a fifth
        # on a tiny Gemma 4 E (tests/test_traps.py), and the first loss does not show it.
        "gradient_checkpointing_kwargs": {"use_reentrant": False},
        "dataloader_pin_memory": True,
    }


def set_up_backend(device: Device) -> None:
    """Let a GPU multiply float32 matrices in tf32.

    The adapter's are float32: with full precision they would run without tensor cores, at about
    an eighth of the speed (NVIDIA, TF32 in the A100 white paper).
    """
    if device.name == "cuda":
        torch.set_float32_matmul_precision("high")
