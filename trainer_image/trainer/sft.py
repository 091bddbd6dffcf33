"""The LoRA fine-tune, top to bottom. The one file that imports trl.

Letters in shapes: B batch, T tokens, N labelled positions of the batch, H hidden, V vocabulary.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import AutoModelForCausalLM, PrinterCallback, set_seed
from trl import SFTConfig, SFTTrainer

from datasets import Dataset  # the library: this package never sees the app of that name

from .checkpoints import Checkpoint, Totals, newest_checkpoint, remove_unfinished
from .data import Examples
from .device import Device, set_num_threads
from .errors import JobFailed
from .progress import ProgressCallback, RunningTotals
from .rendering import IGNORED

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .reporter import Reporter
    from .spec import JobSpec
    from .stop import StopSignal

# Towers that see and hear: text teaches them nothing, and an adapter there cannot be loaded
# by servers that drop them.
TOWER = re.compile(r"vision|audio|image|multi_modal")
WARMUP_FRACTION = 0.1
KEPT_CHECKPOINTS = 2  # the newest, and one more in case that one is cut off


@dataclass(frozen=True)
class TrainResult:
    """The tuned model and the numbers of the whole run, resumed parts included."""

    model: PeftModel
    steps: int
    tokens: int
    final_loss: float | None  # mean over all steps
    last_loss: float | None  # of the last logged steps


def train(
    spec: JobSpec,
    model_dir: Path,
    *,
    tokenizer: PreTrainedTokenizerBase,
    examples: Examples,
    device: Device,
    reporter: Reporter,
    stop: StopSignal,
) -> TrainResult:
    """Fine-tune the model in `model_dir` on the examples, from the newest checkpoint if any."""
    set_seed(spec.seed)
    model = load_with_lora(spec, model_dir, device)
    threads = set_num_threads(model.num_parameters())
    stop.check()
    checkpoint = _find_checkpoint(spec)
    start = checkpoint.totals if checkpoint else Totals()
    totals = RunningTotals(start)
    progress = ProgressCallback(reporter, stop, totals=totals)
    trainer = _build_trainer(
        spec, model, tokenizer=tokenizer, examples=examples, device=device, totals=totals
    )
    trainer.remove_callback(PrinterCallback)  # the log has each number once
    trainer.add_callback(progress)
    num_trainable = model.num_parameters(only_trainable=True)
    print(
        f"training {num_trainable:,} of {model.num_parameters():,} parameters for "
        f"{spec.num_train_steps} steps on {device.name} in {device.dtype_name} "
        f"({device.why}), {threads} threads",
        flush=True,
    )
    reporter.status("training", **_training_fields(spec, num_trainable, device, checkpoint))
    trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    stop.check()
    end = totals.at(trainer.state.global_step)
    return TrainResult(
        model=model,
        steps=end.step,
        tokens=end.tokens,
        final_loss=end.loss_sum / end.step if end.step else None,
        last_loss=progress.last_loss,
    )


def load_with_lora(spec: JobSpec, model_dir: Path, device: Device) -> PeftModel:
    """The base model with fresh LoRA layers on the language model's linear layers."""
    model = AutoModelForCausalLM.from_pretrained(model_dir, dtype=device.dtype)
    model.to(device.name)
    # Gemma 4 says False here, and gradient accumulation would then weigh short rows too much.
    model.accepts_loss_kwargs = True
    check_targets(model, spec.lora_target_pattern)
    config = LoraConfig(
        r=spec.hyperparams.lora_rank,
        lora_alpha=spec.hyperparams.lora_alpha,
        lora_dropout=0.0,
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


def _find_checkpoint(spec: JobSpec) -> Checkpoint | None:
    own = Path(spec.checkpoint_dir)
    remove_unfinished(own)
    found = newest_checkpoint(own, before_step=spec.num_train_steps)
    if found is None and spec.resume_from:
        found = newest_checkpoint(Path(spec.resume_from), before_step=spec.num_train_steps)
    return found


def _training_fields(
    spec: JobSpec, num_trainable: int, device: Device, checkpoint: Checkpoint | None
) -> dict[str, Any]:
    fields = {
        "num_train_steps": spec.num_train_steps,
        "num_trainable_parameters": num_trainable,
        "device": device.name,
        "dtype": device.dtype_name,
    }
    if checkpoint:
        fields["resumed_from_step"] = checkpoint.totals.step
    return fields


def _build_trainer(
    spec: JobSpec,
    model: PeftModel,
    *,
    tokenizer: PreTrainedTokenizerBase,
    examples: Examples,
    device: Device,
    totals: RunningTotals,
) -> CountingTrainer:
    values = spec.hyperparams
    config = SFTConfig(
        output_dir=spec.checkpoint_dir,
        max_steps=spec.num_train_steps,
        per_device_train_batch_size=values.batch_size,
        learning_rate=values.learning_rate,
        lr_scheduler_type="cosine",
        warmup_steps=int(WARMUP_FRACTION * spec.num_train_steps),
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
    return CountingTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(
            [{"input_ids": e.input_ids, "labels": e.labels} for e in examples.encoded]
        ),
        processing_class=tokenizer,
        totals=totals,
    )


class CountingTrainer(SFTTrainer):
    """TRL's trainer with exact totals, and with a leaner loss on a CPU."""

    def __init__(self, *args: Any, totals: RunningTotals, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._totals = totals

    def compute_loss(
        self,
        model: PeftModel,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The loss of one batch: input_ids, labels (B, T) int64, -100 where there is no loss."""
        if self.args.device.type == "cpu":
            # TRL's fused head saves memory by computing the logits twice, which pays with its
            # GPU kernel. Without one, plain logits at the labelled positions are much faster.
            loss, accuracy = loss_at_labels(self.model, inputs, num_items_in_batch)
            self._metrics["train"]["mean_token_accuracy"].append(accuracy)
        else:
            loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        self._totals.add(loss, num_tokens=int(inputs["attention_mask"].sum()))
        return loss

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """No card in a checkpoint: it would name folders of this machine."""


def loss_at_labels(
    model: PeftModel,
    inputs: dict[str, torch.Tensor],
    num_items_in_batch: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, float]:
    """Cross-entropy and token accuracy, with logits only where a label asks for one.

    Equal to TRL's loss: the sum over the labels, divided by `num_items_in_batch`.
    """
    base = model.get_base_model()
    labels = inputs["labels"][:, 1:]  # (B, T-1): position t predicts the token at t + 1
    is_labelled = labels != IGNORED
    hidden = base.base_model(
        input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], use_cache=False
    ).last_hidden_state[:, :-1]  # (B, T-1, H)
    logits = base.get_output_embeddings()(hidden[is_labelled]).float()  # (N, V)
    softcap = getattr(base.config.get_text_config(), "final_logit_softcapping", None)
    if softcap:
        logits = softcap * torch.tanh(logits / softcap)
    targets = labels[is_labelled]  # (N,)
    num_items = targets.numel() if num_items_in_batch is None else num_items_in_batch
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / num_items
    accuracy = (logits.detach().argmax(-1) == targets).float().mean().item()
    return loss, accuracy
