"""The learning rate of each step, as a share of `learning_rate`."""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING

from torch.optim.lr_scheduler import LambdaLR

if TYPE_CHECKING:
    from torch.optim import Optimizer


def learning_rate_share(
    step: int, *, scheduler: str, num_steps: int, num_warmup_steps: int
) -> float:
    """The share of the learning rate with which step `step` learns, counted from 0.

    After the warm-up these are the schedules of transformers. The warm-up itself differs: there
    it begins at 0, which makes the first step, that of the longest batch, learn nothing.
    """
    if step < num_warmup_steps:
        return (step + 1) / (num_warmup_steps + 1)
    if scheduler == "constant":
        return 1.0
    num_falling_steps = max(1, num_steps - num_warmup_steps)
    if scheduler == "linear":
        return max(0.0, (num_steps - step) / num_falling_steps)
    progress = (step - num_warmup_steps) / num_falling_steps
    return max(0.0, 0.5 * (1.0 + math.cos(math.pi * progress)))


def make_schedule(
    optimizer: Optimizer, *, scheduler: str, num_steps: int, num_warmup_steps: int
) -> LambdaLR:
    """A scheduler for this optimizer; its state goes into checkpoints and back."""
    return LambdaLR(
        optimizer,
        partial(
            learning_rate_share,
            scheduler=scheduler,
            num_steps=num_steps,
            num_warmup_steps=num_warmup_steps,
        ),
    )
