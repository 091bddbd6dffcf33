"""The loss on the examples that are held out, the best weights so far, and when to stop.

Evaluations draw no random numbers, so training goes on as if there had been none.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors.torch import load_file, save_file
from torch.nn.utils.rnn import pad_sequence

from .checkpoints import Best
from .label_loss import sums_at_labels
from .rendering import IGNORED
from .totals import round_to

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

    from .keeper import Keeper
    from .rendering import Encoded
    from .reporter import Reporter
    from .spec import JobSpec

BEST_WEIGHTS = "weights.safetensors"


@dataclass(frozen=True)
class EvalResult:
    """`loss` is the mean over all label tokens, whatever the batches."""

    loss: float
    num_tokens: int
    accuracy: float


class Validation:
    """Evaluates now and then, keeps the best weights, and knows when more steps are in vain."""

    def __init__(
        self,
        spec: JobSpec,
        held_out: Sequence[Encoded],
        *,
        keeper: Keeper,
        reporter: Reporter,
        check: Callable[[], None],
        best: Best,
    ) -> None:
        values = spec.hyperparams
        self._batches = _batches(held_out, values.batch_size)
        self._every, self._last_step = values.eval_steps, spec.num_train_steps
        self._patience = values.early_stopping_patience
        self._keeper = keeper
        self._reporter = reporter
        self._check = check
        self._newest: tuple[int, float] | None = None
        self.best = best

    def is_due(self, step: int) -> bool:
        """Every so many steps and at the end, if anything is held out."""
        return bool(self._batches) and (step % self._every == 0 or step == self._last_step)

    def loss_at(self, step: int) -> float | None:
        """What was found at this step, if that was the newest evaluation."""
        return self._newest[1] if self._newest and self._newest[0] == step else None

    @property
    def is_in_vain(self) -> bool:
        """The loss has not fallen for as many evaluations as the spec has patience for."""
        return 0 < self._patience <= self.best.num_since

    def run(
        self,
        model: PreTrainedModel | PeftModel,
        step: int,
        number_type: Callable[[], AbstractContextManager[Any]],
    ) -> EvalResult:
        """Evaluate the weights of this step, report it, and keep the weights if they are best."""
        started = time.monotonic()
        result = evaluate(model, self._batches, number_type=number_type, check=self._check)
        self._newest = (step, result.loss)
        is_better = self.best.loss is None or result.loss < self.best.loss
        if not (is_better and math.isfinite(result.loss)):
            self.best = replace(self.best, num_since=self.best.num_since + 1)
        elif self._keeper.write_best(lambda folder: save_trained(model, folder), step):
            self.best = Best(step, result.loss)
        else:
            self.best = replace(self.best, num_since=0)  # better, but there was no room for it
        self._reporter.report(
            "eval",
            step=step,
            eval_loss=round_to(result.loss),
            eval_tokens=result.num_tokens,
            eval_token_accuracy=round_to(result.accuracy),
            eval_seconds=round_to(time.monotonic() - started),
            is_best=self.best.step == step,
        )
        return result

    def restore_best(self, model: PreTrainedModel | PeftModel, step: int) -> Best:
        """Give the model, now of step `step`, the best weights, and say which they are."""
        if self.best.step in (None, step):
            return self.best
        if self._keeper.read_best(self.best, lambda folder: restore_trained(model, folder)):
            return self.best
        return Best()


def _batches(examples: Sequence[Encoded], batch_size: int) -> list[list[Encoded]]:
    # Equal lengths together: less padding. The mean over tokens knows no order.
    by_length = sorted(examples, key=lambda example: len(example.input_ids), reverse=True)
    return [by_length[start : start + batch_size] for start in range(0, len(by_length), batch_size)]


def evaluate(
    model: PreTrainedModel | PeftModel,
    batches: Sequence[Sequence[Encoded]],
    *,
    number_type: Callable[[], AbstractContextManager[Any]],
    check: Callable[[], None],
) -> EvalResult:
    """The loss of the model as it is, without dropout. `check` may raise between batches."""
    was_training = model.training
    model.eval()
    try:
        sums = []
        for examples in batches:
            check()
            inputs = pad_together(examples, model.device)
            with number_type():
                sums.append(sums_at_labels(model, inputs))
    finally:
        model.train(was_training)
    num_tokens = sum(one.num_labels for one in sums)
    return EvalResult(
        loss=math.fsum(one.loss for one in sums) / num_tokens,
        num_tokens=num_tokens,
        accuracy=sum(one.num_right for one in sums) / num_tokens,
    )


def pad_together(examples: Sequence[Encoded], device: torch.device) -> dict[str, torch.Tensor]:
    """One batch (B, T) int64, padded on the right."""

    def padded(rows: Iterable[list[int]], filler: int) -> torch.Tensor:
        tensors = [torch.tensor(row) for row in rows]
        return pad_sequence(tensors, batch_first=True, padding_value=filler).to(device)

    return {
        "input_ids": padded((example.input_ids for example in examples), 0),
        "attention_mask": padded(([1] * len(example.input_ids) for example in examples), 0),
        "labels": padded((example.labels for example in examples), IGNORED),
    }


def save_trained(model: PreTrainedModel | PeftModel, folder: Path) -> None:
    """Write the weights that training changes."""
    save_file(
        {name: weight.detach().contiguous() for name, weight in _trained(model)},
        folder / BEST_WEIGHTS,
    )


def restore_trained(model: PreTrainedModel | PeftModel, folder: Path) -> None:
    """Put the weights of `save_trained` back into the model."""
    saved = load_file(folder / BEST_WEIGHTS)
    with torch.no_grad():
        for name, weight in _trained(model):
            weight.copy_(saved[name])


def _trained(model: PreTrainedModel | PeftModel) -> list[tuple[str, torch.nn.Parameter]]:
    return [(name, weight) for name, weight in model.named_parameters() if weight.requires_grad]
