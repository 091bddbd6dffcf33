"""The fine-tune, top to bottom, on TRL's trainer."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from transformers import PrinterCallback, set_seed

from datasets import Dataset  # the library: this package never sees the app of that name

from .checkpoints import Best, Checkpoint
from .data import Examples
from .device import Device, set_num_threads
from .effect import BaseAnswers, ask_base
from .errors import JobFailed, first_line, is_out_of_memory
from .evaluation import Validation
from .keeper import Keeper
from .label_loss import plain_model
from .loading import attention_for
from .loop import CountingTrainer
from .methods import finish, keep_adapter_exact, load_for_training
from .packing import why_not_packed
from .progress import ProgressCallback
from .sft_config import build_config
from .totals import RunningTotals, Totals

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from .reporter import Reporter
    from .spec import JobSpec
    from .stop import StopSignal


@dataclass(frozen=True)
class TrainResult:
    """The tuned model and the numbers of the whole run, resumed parts included.

    With held-out examples the model has the weights of `best`; without, those of the last step.
    """

    model: PreTrainedModel | PeftModel
    base: BaseAnswers  # to prove the effect of the finished files
    steps: int
    tokens: int
    final_loss: float | None  # mean over all steps
    last_loss: float | None  # of the last progress report
    best: Best
    stopped_early_at: int | None


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
    base = ask_base(model, examples.encoded, check=stop.check)
    keeper = Keeper(spec, reporter)
    checkpoint = keeper.find()
    totals = RunningTotals(checkpoint.totals if checkpoint else Totals())
    validation = Validation(
        spec,
        examples.held_out,
        keeper=keeper,
        reporter=reporter,
        check=stop.check,
        best=checkpoint.best if checkpoint else Best(),
    )
    progress = ProgressCallback(reporter, stop, totals=totals, validation=validation)
    trainer = build_trainer(
        spec, model, tokenizer=tokenizer, examples=examples, device=device, totals=totals
    )
    trainer.watch(keeper, validation, progress)
    _announce(spec, trainer.model, device, checkpoint, threads=threads, reporter=reporter)
    if checkpoint and checkpoint.totals.step == spec.num_train_steps:
        # The last run was over but for its upload; the loop would do one step more.
        trainer.restore(checkpoint.path)
        progress.report_restored(spec.num_train_steps)
    else:
        with attention_for(plain_model(model), device, longest=_longest_row(trainer, examples)):
            _run(trainer, spec, checkpoint)
    stop.check()
    progress.warn_of_loss(is_over=True)
    end = totals.read()
    best = validation.restore_best(model, end.step)
    finish(spec, model, model_dir)
    return TrainResult(
        model=model,
        base=base,
        steps=end.step,
        tokens=end.tokens,
        final_loss=end.mean_loss,
        last_loss=end.last_loss,
        best=best,
        stopped_early_at=end.step if end.step < spec.num_train_steps else None,
    )


def _announce(
    spec: JobSpec,
    model: PreTrainedModel | PeftModel,
    device: Device,
    checkpoint: Checkpoint | None,
    *,
    threads: int,
    reporter: Reporter,
) -> None:
    """Say what is about to be trained, and from where, in the log and as the status."""
    num_trainable = model.num_parameters(only_trainable=True)
    print(
        f"training {num_trainable:,} of {model.num_parameters():,} parameters for "
        f"{spec.num_train_steps} steps on {device.name} in {device.dtype_name} "
        f"({device.why}), {threads} threads",
        flush=True,
    )
    if spec.hyperparams.packing and (message := why_not_packed(model)):
        reporter.report("warning", code="packing_ignored", message=message)
    resumed = {"resumed_from_step": checkpoint.totals.step} if checkpoint else {}
    reporter.status(
        "training",
        num_train_steps=spec.num_train_steps,
        num_trainable_parameters=num_trainable,
        device=device.name,
        dtype=device.dtype_name,
        **resumed,
    )


def _longest_row(trainer: CountingTrainer, examples: Examples) -> int:
    """Tokens of the longest row of a batch; packing makes one row of a whole batch."""
    config = trainer.args
    if config.packing:
        return config.per_device_train_batch_size * config.max_length
    return examples.longest


def _run(trainer: CountingTrainer, spec: JobSpec, checkpoint: Checkpoint | None) -> None:
    """All steps that are left. Says of a lack of memory when it came and what to change."""
    try:
        trainer.train(resume_from_checkpoint=str(checkpoint.path) if checkpoint else None)
    except (RuntimeError, MemoryError) as error:
        if not is_out_of_memory(error):
            raise
        values = spec.hyperparams
        raise JobFailed(
            "out_of_memory",
            f"The memory was not enough after {trainer.state.global_step} finished steps: lower "
            f"batch_size (now {values.batch_size}) and raise gradient_accumulation_steps instead, "
            f"or lower max_length (now {values.max_length}). ({first_line(error)})",
        ) from error


def build_trainer(
    spec: JobSpec,
    model: PreTrainedModel | PeftModel,
    *,
    tokenizer: PreTrainedTokenizerBase,
    examples: Examples,
    device: Device,
    totals: RunningTotals,
) -> CountingTrainer:
    """TRL's trainer for this job; what it reports and keeps comes with `watch`."""
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
    trainer.remove_callback(PrinterCallback)  # the log has each number once
    keep_adapter_exact(trainer.model)
    return trainer
