"""The settings of TRL's trainer, each choice with its reason."""

from __future__ import annotations

from typing import TYPE_CHECKING

from trl import SFTConfig

from .device import Device

if TYPE_CHECKING:
    from .spec import JobSpec

KEPT_CHECKPOINTS = 2  # the newest, and one more in case that one is cut off


def build_config(spec: JobSpec, device: Device) -> SFTConfig:
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
        max_length=None,  # the examples are cut to size already
        bf16=False,  # the weights are bfloat16 where that helps; the adapter stays float32
        use_cpu=device.name == "cpu",
        gradient_checkpointing=device.name != "cpu",
        # Reentrant checkpointing gives wrong gradients where layers share keys and values.
        gradient_checkpointing_kwargs={"use_reentrant": False} if device.name != "cpu" else None,
        disable_tqdm=True,
        report_to="none",
        dataloader_pin_memory=device.name != "cpu",
    )
