"""The fine-tune, top to bottom, on TRL's trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PrinterCallback, set_seed
from trl import SFTTrainer

from datasets import Dataset  # the library: this package never sees the app of that name

from .checkpoints import Checkpoint, Totals, newest_checkpoint, remove_unfinished
from .data import Examples
from .device import Device, set_num_threads
from .label_loss import loss_at_labels
from .methods import finish, keep_adapter_exact, load_for_training
from .packing import count_tokens, why_not_packed
from .progress import ProgressCallback, RunningTotals
from .sft_config import build_config

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .reporter import Reporter
    from .spec import JobSpec
    from .stop import StopSignal


@dataclass(frozen=True)
class TrainResult:
    """The tuned model and the numbers of the whole run, resumed parts included."""

    model: PreTrainedModel | PeftModel
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
    model = load_for_training(spec, model_dir, device)
    threads = set_num_threads(model.num_parameters())
    stop.check()
    checkpoint = _find_checkpoint(spec)
    start = checkpoint.totals if checkpoint else Totals()
    totals = RunningTotals(start)
    progress = ProgressCallback(reporter, stop, totals=totals)
    trainer = build_trainer(
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
    if spec.hyperparams.packing and (message := why_not_packed(model)):
        reporter.report("warning", code="packing_ignored", message=message)
    reporter.status("training", **_training_fields(spec, num_trainable, device, checkpoint))
    trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    stop.check()
    finish(spec, model, model_dir)
    end = totals.at(trainer.state.global_step)
    return TrainResult(
        model=model,
        steps=end.step,
        tokens=end.tokens,
        final_loss=end.loss_sum / end.step if end.step else None,
        last_loss=progress.last_loss,
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


def build_trainer(
    spec: JobSpec,
    model: PreTrainedModel | PeftModel,
    *,
    tokenizer: PreTrainedTokenizerBase,
    examples: Examples,
    device: Device,
    totals: RunningTotals,
) -> CountingTrainer:
    config = build_config(
        spec,
        device,
        num_trainable=model.num_parameters(only_trainable=True),
        is_packed=spec.hyperparams.packing and not why_not_packed(model),
    )
    trainer = CountingTrainer(
        model=model,
        args=config,
        train_dataset=Dataset.from_list(
            [{"input_ids": e.input_ids, "labels": e.labels} for e in examples.encoded]
        ),
        processing_class=tokenizer,
        totals=totals,
    )
    keep_adapter_exact(trainer.model)
    return trainer


class CountingTrainer(SFTTrainer):
    """TRL's trainer with exact totals, and with a leaner loss on a CPU."""

    def __init__(self, *args: Any, totals: RunningTotals, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._totals = totals

    def compute_loss(
        self,
        model: PreTrainedModel | PeftModel,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The loss of one batch: input_ids, labels (B, T) int64, -100 where there is no loss."""
        if self.args.device.type == "cpu":
            # TRL's fused head saves memory by computing the logits twice, which pays with its
            # GPU kernel. Without one, plain logits at the labelled positions are much faster.
            with self.accelerator.autocast():  # of a full fine-tune; nothing happens in others
                loss, accuracy = loss_at_labels(self.model, inputs, num_items_in_batch)
            self._metrics["train"]["mean_token_accuracy"].append(accuracy)
        else:
            loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        self._totals.add(loss, num_tokens=count_tokens(inputs))
        return loss

    def create_model_card(self, *args: Any, **kwargs: Any) -> None:
        """No card in a checkpoint: it would name folders of this machine."""
