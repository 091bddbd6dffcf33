"""Turns what the training loop logs into reports, and ends the loop when somebody asks."""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from transformers import TrainerCallback

from .errors import JobFailed
from .totals import round_to

if TYPE_CHECKING:
    from transformers import TrainerControl, TrainerState, TrainingArguments

    from .evaluation import Validation
    from .reporter import Reporter
    from .stop import StopSignal
    from .totals import RunningTotals

GIB = 2**30
KEPT_LOGS = 1000


class ProgressCallback(TrainerCallback):
    """Reports progress, asks for evaluations, and stops within one optimizer step.

    Speed and time left count only this process: a resumed run starts a new stretch.
    """

    def __init__(
        self,
        reporter: Reporter,
        stop: StopSignal,
        *,
        totals: RunningTotals,
        validation: Validation,
    ) -> None:
        self._reporter = reporter
        self._stop = stop
        self._totals = totals
        self._validation = validation
        self._tokens_at_start = totals.now.tokens
        self._started = time.monotonic()
        self._first_step: tuple[int, float] | None = None  # of this process, and its end

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self._started = time.monotonic()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if self._first_step is None:
            self._first_step = (state.global_step, time.monotonic())
        if self._stop.is_set:
            control.should_training_stop = True
            control.should_save = False
            return
        self._stop.check()  # only the time limit is left to raise
        if args.device.type == "cpu":
            # Reading costs nothing here. A GPU would be waited for, so there the guard reads
            # every step's numbers when the loop waits anyway: to log, to evaluate, to save.
            self._totals.read()
        is_at_an_end = state.global_step in (1, state.max_steps)
        if is_at_an_end or self._totals.divergence:
            control.should_log = True
        control.should_evaluate = self._validation.is_due(state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, float] | None = None,
        **kwargs: Any,
    ) -> None:
        # All of it is reported; kept here it would grow with every step, in each checkpoint too.
        del state.log_history[:-KEPT_LOGS]
        if not logs or "loss" not in logs:
            return  # the summary at the end
        if self._totals.close_window() is None:
            return
        self._reporter.report("progress", **self._fields(state, logs))
        if self._totals.divergence:
            raise JobFailed("diverged", self._totals.divergence)
        self.warn_of_loss()

    def on_evaluate(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if self._validation.is_in_vain and state.global_step < state.max_steps:
            control.should_training_stop = True
            control.should_log = True  # the last step is reported, whatever the interval
            # A checkpoint from here would leave nothing to do for the run that resumes it.
            control.should_save = False

    def report_restored(self, num_train_steps: int) -> None:
        """Say where a run stands that has no step left to do: a new job has said nothing yet."""
        totals = self._totals.now
        self._reporter.report(
            "progress",
            step=totals.step,
            num_train_steps=num_train_steps,
            loss=None if totals.last_loss is None else round_to(totals.last_loss),
            tokens=totals.tokens,
            seconds_left=0.0,
        )

    def warn_of_loss(self, *, is_over: bool = False) -> None:
        """Say once if the loss does not fall."""
        message = self._totals.warning(is_over=is_over)
        if message:
            self._reporter.report("warning", code="loss_not_falling", message=message)

    def _fields(self, state: TrainerState, logs: Mapping[str, float]) -> dict[str, Any]:
        elapsed = time.monotonic() - self._started
        totals = self._totals.now
        fields: dict[str, Any] = {
            "step": state.global_step,
            "num_train_steps": state.max_steps,
            "loss": totals.last_loss,
            "learning_rate": logs.get("learning_rate"),
            "epoch": state.epoch,
            "grad_norm": self._totals.grad_norm,
            "tokens": totals.tokens,
            "tokens_per_second": (totals.tokens - self._tokens_at_start) / elapsed,
            "mean_token_accuracy": logs.get("mean_token_accuracy"),
            "elapsed_seconds": elapsed,
            "seconds_left": self._seconds_left(state),
            **_peak_memory(),
        }
        return {
            name: round_to(value) if isinstance(value, float) else value
            for name, value in fields.items()
            if value is not None
        }

    def _seconds_left(self, state: TrainerState) -> float | None:
        """None after the first step: alone, with all that is done once, it tells nothing."""
        if state.global_step >= state.max_steps:
            return 0.0
        step, at = self._first_step or (state.global_step, 0.0)
        num_done = state.global_step - step
        if not num_done:
            return None
        return (state.max_steps - state.global_step) * (time.monotonic() - at) / num_done


def _peak_memory() -> dict[str, float]:
    """The most memory that this process has held so far, on the GPU if there is one."""
    import torch  # loaded long before, by the loop

    if torch.cuda.is_available():
        return {"gpu_memory_gib": torch.cuda.max_memory_allocated() / GIB}
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    unit = 1 if sys.platform == "darwin" else 1024  # bytes there, KiB on Linux
    return {"memory_gib": peak * unit / GIB}
