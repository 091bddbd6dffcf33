"""Cross-entropy computed only where there is a label. Plain torch.

Letters in shapes: B batch, T tokens, N labelled positions of the batch, H hidden, V vocabulary.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from .rendering import IGNORED

if TYPE_CHECKING:
    from peft import PeftModel


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
