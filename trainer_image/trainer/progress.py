"""Turns what the training loop logs into reports, and ends the loop when somebody asks."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from .checkpoints import Totals, mark_complete
from .errors import JobFailed

if TYPE_CHECKING:
    import torch
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from .reporter import Reporter
    from .stop import StopSignal

GIB = 2**30


class RunningTotals:
    """Tokens and losses, counted by the loop itself.

    Exact where the loop's own log is rounded, and right after a resume, where it starts anew.
    Losses stay tensors until someone asks, so that a GPU is not waited for in each step.
    """

    def __init__(self, start: Totals) -> None:
        self.tokens = start.tokens
        self._loss_sum = start.loss_sum
        self._window: list[torch.Tensor] = []

    def add(self, loss: torch.Tensor, *, num_tokens: int) -> None:
        """Count one batch. loss () float, the batch's share of its optimizer step's loss."""
        self._window.append(loss.detach())
        self.tokens += num_tokens

    def close_window(self, num_steps: int) -> float:
        """The mean loss of the optimizer steps since the last call."""
        window_sum = self._collect()
        return window_sum / max(1, num_steps)

    def _collect(self) -> float:
        window_sum = math.fsum(loss.item() for loss in self._window)
        self._window.clear()
        self._loss_sum += window_sum
        return window_sum

    def at(self, step: int) -> Totals:
        """All that was counted up to this step."""
        pending = math.fsum(loss.item() for loss in self._window)
        return Totals(step=step, tokens=self.tokens, loss_sum=self._loss_sum + pending)


class ProgressCallback(TrainerCallback):
    """Reports progress and checkpoints; stops within one optimizer step."""

    def __init__(self, reporter: Reporter, stop: StopSignal, *, totals: RunningTotals) -> None:
        self._reporter = reporter
        self._stop = stop
        self._totals = totals
        self._tokens_at_start = totals.tokens
        self._started = time.monotonic()
        self._last_logged_step = 0
        self._bad_losses = 0
        self.last_loss: float | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self._started = time.monotonic()
        self._last_logged_step = state.global_step

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if self._stop.is_set:
            control.should_training_stop = True
            control.should_save = False
        else:
            self._stop.check()  # only the time limit is left to raise

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        num_steps = state.global_step - self._last_logged_step
        if not logs or "loss" not in logs or num_steps < 1:
            return  # the summary at the end
        self._last_logged_step = state.global_step
        self.last_loss = self._totals.close_window(num_steps)
        self._reporter.report("progress", **self._fields(state, logs))
        self._check_loss(self.last_loss, state.global_step)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        totals = self._totals.at(state.global_step)
        if not math.isfinite(totals.loss_sum) or self._bad_losses:
            return  # unmarked: the last good checkpoint stays the newest
        path = Path(args.output_dir) / f"checkpoint-{state.global_step}"
        size_bytes = mark_complete(path, totals)
        self._reporter.report(
            "checkpoint", step=state.global_step, path=path.name, size_bytes=size_bytes
        )

    def _fields(self, state: TrainerState, logs: Mapping[str, float]) -> dict[str, Any]:
        elapsed = time.monotonic() - self._started
        fields: dict[str, Any] = {
            "step": state.global_step,
            "num_train_steps": state.max_steps,
            "loss": self.last_loss,
            "learning_rate": logs.get("learning_rate"),
            "epoch": state.epoch,
            "grad_norm": logs.get("grad_norm"),
            "tokens": self._totals.tokens,
            "tokens_per_second": (self._totals.tokens - self._tokens_at_start) / elapsed,
            "mean_token_accuracy": logs.get("mean_token_accuracy"),
            "elapsed_seconds": elapsed,
        }
        memory = _gpu_memory_gib()
        if memory is not None:
            fields["gpu_memory_gib"] = memory
        return {
            name: float(f"{value:.6g}") if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }

    def _check_loss(self, loss: float, step: int) -> None:
        is_bad = not math.isfinite(loss) or loss == 0.0
        self._bad_losses = self._bad_losses + 1 if is_bad else 0
        if self._bad_losses >= 2:
            what = "exactly zero" if loss == 0.0 else "not a finite number"
            raise JobFailed(
                "diverged",
                f"The loss was {what} twice in a row, at last at step {step}: "
                "lower the learning_rate.",
            )


def _gpu_memory_gib() -> float | None:
    """The most memory this process has held on the GPU; None without one."""
    import torch  # loaded long before, by the loop

    return torch.cuda.max_memory_allocated() / GIB if torch.cuda.is_available() else None
