"""What a run counts step by step, and what these numbers say of its health. No torch needed.

Losses stay tensors until someone reads them, so that a GPU is not waited for in each step.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import torch

NUM_COMPARED_STEPS = 5  # one step's loss says little: batches differ
WORSE_FACTOR = 2.0  # a loss this many times that of the start is no noise of batches ...
WORSE_BY = 0.5  # ... if it is also this much more: near 0 everything is a multiple
MAX_BAD_STEPS = 2  # in a row


@dataclass(frozen=True)
class Totals:
    """What a run has counted so far; a resumed run goes on from here."""

    step: int = 0
    tokens: int = 0
    loss_sum: float = 0.0  # of the loss of every optimizer step
    last_loss: float | None = None  # of the last progress report
    unreported: tuple[float, ...] = ()  # losses of the steps since the last progress report
    first_losses: tuple[float, ...] = ()
    recent_losses: tuple[float, ...] = ()
    is_warned: bool = False  # of a loss that does not fall: once in a run

    @classmethod
    def from_json(cls, content: Mapping[str, Any]) -> Totals:
        """Read what `asdict` and JSON made of totals. Raises TypeError if it is something else."""
        values = {
            name: tuple(value) if isinstance(value, list) else value
            for name, value in content.items()
        }
        return cls(**values)

    @property
    def mean_loss(self) -> float | None:
        """Over all steps of the run, resumed parts included."""
        return self.loss_sum / self.step if self.step else None


@dataclass
class _Step:
    """The numbers of one optimizer step, on the device."""

    losses: list[torch.Tensor] = field(default_factory=list)  # () float each: shares of the loss
    tokens: list[torch.Tensor | int] = field(default_factory=list)
    grad_norm: torch.Tensor | float = 0.0


class RunningTotals:
    """Tokens and losses, counted by the loop itself.

    Exact where the loop's own log is rounded, and right after a resume, where it starts anew.
    """

    def __init__(self, start: Totals) -> None:
        self.now = start
        self.grad_norm: float | None = None  # of the last step that was read
        self.divergence = ""  # why the run must end, or an empty text
        self._bad_steps: list[tuple[int, str]] = []
        self._open = _Step()
        self._unread: list[_Step] = []

    def add(self, loss: torch.Tensor, *, num_tokens: torch.Tensor | int) -> None:
        """Count one batch. loss () float, the batch's share of its optimizer step's loss."""
        self._open.losses.append(loss.detach())
        self._open.tokens.append(num_tokens)

    def end_step(self, grad_norm: torch.Tensor | float) -> None:
        """The batches since the last call made one optimizer step with this gradient () float."""
        self._open.grad_norm = grad_norm
        self._unread.append(self._open)
        self._open = _Step()

    def read(self) -> Totals:
        """All that was counted up to now. Waits for the device."""
        unread, self._unread = self._unread, []
        for step in unread:
            self._take_in(
                math.fsum(loss.item() for loss in step.losses),
                num_tokens=sum(int(count) for count in step.tokens),
                grad_norm=float(step.grad_norm),
            )
        return self.now

    def _take_in(self, loss: float, *, num_tokens: int, grad_norm: float) -> None:
        now, self.grad_norm = self.now, grad_norm
        self.now = replace(
            now,
            step=now.step + 1,
            tokens=now.tokens + num_tokens,
            loss_sum=now.loss_sum + loss,
            unreported=(*now.unreported, loss),
            first_losses=(*now.first_losses, loss)[:NUM_COMPARED_STEPS],
            recent_losses=(*now.recent_losses, loss)[-NUM_COMPARED_STEPS:],
        )
        self._guard(loss, grad_norm)

    def _guard(self, loss: float, grad_norm: float) -> None:
        problem = _problem(loss, grad_norm)
        if not problem:
            self._bad_steps.clear()
            return
        self._bad_steps.append((self.now.step, problem))
        if len(self._bad_steps) >= MAX_BAD_STEPS and not self.divergence:
            self.divergence = _divergence(self._bad_steps)

    @property
    def is_sound(self) -> bool:
        """Nothing that was read speaks against going on from the weights of now."""
        return not self._bad_steps and not self.divergence and math.isfinite(self.now.loss_sum)

    def close_window(self) -> float | None:
        """The mean loss of the steps since the last call; None if there was no step."""
        window = self.read().unreported
        if not window:
            return None
        loss = math.fsum(window) / len(window)
        self.now = replace(self.now, last_loss=loss, unreported=())
        return loss

    def warning(self, *, is_over: bool = False) -> str:
        """One sentence, once in a run, if the loss does not do what training is for."""
        if self.now.is_warned:
            return ""
        message = _not_falling(self.now) if is_over else _rising(self.now)
        if message:
            self.now = replace(self.now, is_warned=True)
        return message


def _problem(loss: float, grad_norm: float) -> str:
    if not math.isfinite(loss):
        return "loss was not a finite number"
    if loss == 0.0:
        return "loss was exactly zero"
    return "" if math.isfinite(grad_norm) else "gradient was not a finite number"


def _divergence(bad_steps: list[tuple[int, str]]) -> str:
    (first, problem), (last, _) = bad_steps[0], bad_steps[-1]
    what_to_do = (
        "either nothing is left to learn, or the examples carry no text to learn. "
        "Look at the trained text in the dataset event, or train fewer steps"
        if "zero" in problem
        else "lower the learning_rate or max_grad_norm"
    )
    return f"The {problem} twice in a row, at steps {first} and {last}: {what_to_do}."


def _rising(totals: Totals) -> str:
    if totals.step < 2 * NUM_COMPARED_STEPS:
        return ""
    start, recent = _mean(totals.first_losses), _mean(totals.recent_losses)
    if not recent > max(WORSE_FACTOR * start, start + WORSE_BY):
        return ""
    return (
        f"The loss rises: {recent:.4g} around step {totals.step}, {start:.4g} at the start. "
        "Stop the job and lower the learning_rate, unless this is meant."
    )


def _not_falling(totals: Totals) -> str:
    num_compared = min(NUM_COMPARED_STEPS, totals.step // 2)
    if not num_compared:
        return ""
    start = _mean(totals.first_losses[:num_compared])
    end = _mean(totals.recent_losses[-num_compared:])
    if end < start:
        return ""
    return (
        f"The loss did not fall: {start:.4g} in the first {num_compared} steps, {end:.4g} in "
        "the last. The model learned little or nothing; try another learning_rate or more steps."
    )


def _mean(values: tuple[float, ...]) -> float:
    return math.fsum(values) / len(values)


def round_to(value: float) -> float:
    """Six significant digits: what a report needs."""
    return float(f"{value:.6g}")
