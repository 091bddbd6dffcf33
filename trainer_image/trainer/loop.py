"""TRL's trainer where this project wants more of it, or something else."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from peft import PeftModel
from peft.helpers import disable_input_dtype_casting
from trl import SFTTrainer

from .batches import LongestFirst
from .errors import JobFailed
from .label_loss import loss_at_labels
from .packing import count_tokens, without_mask
from .schedule import make_schedule

if TYPE_CHECKING:
    from torch.optim.lr_scheduler import LRScheduler
    from transformers import PreTrainedModel

    from datasets import Dataset

    from .evaluation import Validation
    from .keeper import Keeper
    from .progress import ProgressCallback
    from .totals import RunningTotals


class CountingTrainer(SFTTrainer):
    """Exact totals, a leaner loss on a CPU, and checkpoints and evaluations of our own."""

    def __init__(self, *args: Any, totals: RunningTotals, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._totals = totals

    def watch(self, keeper: Keeper, validation: Validation, progress: ProgressCallback) -> None:
        """Say who keeps the checkpoints, evaluates, and reports."""
        self._keeper = keeper
        self._validation = validation
        self.add_callback(progress)

    def restore(self, checkpoint: Path) -> None:
        """Take the weights of a checkpoint, with no step to follow."""
        self._load_from_checkpoint(str(checkpoint))

    def _get_train_sampler(self, train_dataset: Dataset | None = None) -> LongestFirst:
        """The longest examples in the first step; then each epoch in an order of its own."""
        rows = self.train_dataset if train_dataset is None else train_dataset
        return LongestFirst(
            [len(input_ids) for input_ids in rows["input_ids"]],
            num_first=self.args.per_device_train_batch_size * self.args.gradient_accumulation_steps,
            seed=self.args.data_seed,
        )

    def create_scheduler(
        self, num_training_steps: int, optimizer: torch.optim.Optimizer | None = None
    ) -> LRScheduler:
        """The schedule of transformers, but with a first step that learns."""
        if self.lr_scheduler is None:
            self.lr_scheduler = make_schedule(
                optimizer or self.optimizer,
                scheduler=str(self.args.lr_scheduler_type.value),
                num_steps=num_training_steps,
                num_warmup_steps=self.args.get_warmup_steps(num_training_steps),
            )
            self._created_lr_scheduler = True
        return self.lr_scheduler

    def compute_loss(
        self,
        model: PreTrainedModel | PeftModel,
        inputs: dict[str, torch.Tensor],
        return_outputs: bool = False,
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        """The loss of one batch: input_ids, labels (B, T) int64, -100 where there is no loss."""
        num_tokens = count_tokens(inputs)
        inputs = without_mask(inputs)
        # PEFT would cast an adapter's inputs up to float32; autocast casts its weights down.
        with disable_input_dtype_casting(self.model):
            if self.args.device.type == "cpu":
                # TRL's fused head saves memory by computing the logits twice, which pays with
                # its GPU kernel; there it too takes only the labelled positions. Without that
                # kernel it takes all of them, and plain logits at the labels are much faster.
                with self.accelerator.autocast():
                    loss, accuracy = loss_at_labels(self.model, inputs, num_items_in_batch)
                self._metrics["train"]["mean_token_accuracy"].append(accuracy)
            else:
                loss = super().compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        self._totals.add(loss, num_tokens=num_tokens)
        return loss

    def _get_grad_norm(
        self, model: PreTrainedModel | PeftModel, grad_norm: torch.Tensor | None = None
    ) -> torch.Tensor | float:
        """Called once in each optimizer step, so here ends what the totals count as one."""
        norm = super()._get_grad_norm(model, grad_norm=grad_norm)
        self._totals.end_step(norm)
        return norm

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Our own evaluation: a mean over all label tokens, which draws no random number."""
        result = self._validation.run(
            self.model, self.state.global_step, number_type=self.accelerator.autocast
        )
        metrics = {"eval_loss": result.loss}
        self.control = self.callback_handler.on_evaluate(
            self.args, self.state, self.control, metrics
        )
        return metrics

    def _save_checkpoint(self, model: PreTrainedModel | PeftModel, trial: Any) -> None:
        """The same files, written whole or not at all; weights gone wrong are never kept."""
        totals = self._totals.read()
        if not self._totals.is_sound:
            return
        step = self.state.global_step
        self._keeper.write(
            self._fill_checkpoint, totals, self._validation.best, self._validation.loss_at(step)
        )

    def _fill_checkpoint(self, folder: Path) -> None:
        # A whole model goes under its own names, where a resume looks for them. The hub's are
        # others in Qwen3.5: nothing would be found, and the base model would go on in its place.
        is_whole = not isinstance(self.model, PeftModel)
        self.model.save_pretrained(folder, **({"save_original_format": False} if is_whole else {}))
        self._save_optimizer_and_scheduler(str(folder))
        self._save_rng_state(str(folder))
        self.state.save_to_json(str(folder / "trainer_state.json"))

    def _issue_warnings_after_load(self, load_result: Any) -> None:
        """Where transformers would only log that weights are missing, the job ends."""
        tied = set(self.model.all_tied_weights_keys)  # stored once, under the other name
        if missing := sorted(set(load_result.missing_keys) - tied):
            raise JobFailed(
                "trainer_error",
                f"The checkpoint lacks {len(missing)} weights of the model, for example "
                f"{missing[0]}: it cannot be resumed. Start the job anew.",
            )
