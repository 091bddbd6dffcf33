"""Cross-entropy computed only where there is a label. Plain torch.

Letters in shapes: B batch, T tokens, N labelled positions of the batch, H hidden, V vocabulary.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from peft import PeftModel

from .rendering import IGNORED

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Positions whose logits are held at once where no gradient is wanted: with 262,144 words in
# float32 they are 256 MiB.
CHUNK = 256


def loss_at_labels(
    model: PreTrainedModel | PeftModel,
    inputs: dict[str, torch.Tensor],
    num_items_in_batch: torch.Tensor | int | None = None,
) -> tuple[torch.Tensor, float]:
    """Cross-entropy and token accuracy, with logits only where a label asks for one.

    Equal to TRL's loss: the sum over the labels, divided by `num_items_in_batch`.
    """
    base = plain_model(model)
    hidden, targets = _labelled(base, inputs)
    logits = _logits(base, hidden)
    num_items = targets.numel() if num_items_in_batch is None else num_items_in_batch
    num_items = torch.as_tensor(num_items).clamp(min=1)  # without labels the loss is 0, not 0 / 0
    loss = torch.nn.functional.cross_entropy(logits, targets, reduction="sum") / num_items
    num_right = (logits.detach().argmax(-1) == targets).sum().item()
    return loss, num_right / max(1, targets.numel())


@dataclass(frozen=True)
class LabelSums:
    """Sums over labelled positions: of the cross-entropy, and of the right first guesses."""

    loss: float
    num_right: int
    num_labels: int


@torch.no_grad()
def sums_at_labels(
    model: PreTrainedModel | PeftModel, inputs: dict[str, torch.Tensor]
) -> LabelSums:
    """What a mean over many batches is made of. Holds the logits of few positions at once."""
    base = plain_model(model)
    hidden, targets = _labelled(base, inputs)
    loss = torch.zeros((), dtype=torch.float64, device=hidden.device)
    num_right = torch.zeros((), dtype=torch.int64, device=hidden.device)
    for some_hidden, some_targets in zip(hidden.split(CHUNK), targets.split(CHUNK), strict=True):
        logits = _logits(base, some_hidden)
        loss += torch.nn.functional.cross_entropy(logits, some_targets, reduction="sum").double()
        num_right += (logits.argmax(-1) == some_targets).sum()
    return LabelSums(loss.item(), int(num_right.item()), targets.numel())


@torch.no_grad()
def logits_at_labels(
    model: PreTrainedModel | PeftModel, inputs: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Logits (N, V) float32 and targets (N,) int64 of the labelled positions."""
    base = plain_model(model)
    hidden, targets = _labelled(base, inputs)
    return _logits(base, hidden), targets


def plain_model(model: PreTrainedModel | PeftModel) -> PreTrainedModel:
    """The model itself; an adapter's layers stay in it."""
    return model.get_base_model() if isinstance(model, PeftModel) else model


def _labelled(
    base: PreTrainedModel, inputs: dict[str, torch.Tensor]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Hidden states (N, H) at the labelled positions and the tokens (N,) to be predicted there."""
    labels = inputs["labels"][:, 1:]  # (B, T-1): position t predicts the token at t + 1
    is_labelled = labels != IGNORED
    others = {name: value for name, value in inputs.items() if name != "labels"}
    hidden = base.base_model(**others | {"use_cache": False}).last_hidden_state  # (B, T, H)
    return hidden[:, :-1][is_labelled], labels[is_labelled]


def _logits(base: PreTrainedModel, hidden: torch.Tensor) -> torch.Tensor:
    """(N, H) to (N, V) float32, as the model's own head gives them."""
    logits = base.get_output_embeddings()(hidden).float()
    softcap = getattr(base.config.get_text_config(), "final_logit_softcapping", None)
    return softcap * torch.tanh(logits / softcap) if softcap else logits
