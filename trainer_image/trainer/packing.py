"""How a batch is laid out: where examples may share a row, what is padding, what it costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedModel

# Kinds of model in which examples that share a row were shown not to see each other
# (tests/test_packing.py), with the attention that loading.py chooses.
SAFE_KINDS = frozenset({"gemma4", "gemma4_unified", "llama"})


def why_not_packed(model: PreTrainedModel) -> str:
    """A sentence for the job's owner if examples must not share a row; empty if they may.

    Qwen3.5 is not safe: its linear attention carries a state from token to token, and begins anew
    with each example only in the GPU kernels of flash-linear-attention, which are not installed.
    """
    kind = model.config.model_type.removesuffix("_text")
    if kind in SAFE_KINDS:
        return ""
    return (
        f"packing was ignored: in a model of kind {kind} examples that share a row could see "
        "each other. It trains as without packing, only slower."
    )


def count_tokens(inputs: dict[str, torch.Tensor]) -> int:
    """The tokens of a batch that are no padding.

    attention_mask  (B, T) int64, or in a packed batch, which has none,
    position_ids    (1, T) int64, from 0 in each example, and 0 in the padding
    """
    if "attention_mask" in inputs:
        return int(inputs["attention_mask"].sum())
    position = inputs["position_ids"]
    # An example has at least two tokens, so each has one at position 1; their first ones are 0.
    return int((position > 0).sum() + (position == 1).sum())


def without_mask(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """The same batch without its mask for padding: attention that need not read one is faster.

    Exact, because all padding is to the right, where no token of a causal model looks, and has no
    label. With a mask PyTorch leaves its fastest kernels, at Gemma's head size by 5.6 to 8.8 times
    (unsloth #11102); on a CPU it is 3 % of a step. TRL wants positions instead:

    position_ids    (B, T) int64, 0 to T-1 in each row
    """
    if "attention_mask" not in inputs:
        return inputs
    others = {name: value for name, value in inputs.items() if name != "attention_mask"}
    rows, length = inputs["input_ids"].shape
    positions = torch.arange(length, device=inputs["input_ids"].device)
    return others | {"position_ids": positions.expand(rows, length)}
