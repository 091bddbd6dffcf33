"""Loads a model for training or for answers, and refuses one that would only look loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import AutoConfig, AutoModelForCausalLM

from .device import Device
from .errors import JobFailed

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel
    from transformers.utils.quantization_config import QuantizationConfigMixin

NUM_NAMED_KEYS = 3  # of those that are missing, in a message
# Logits go up to 30 in Gemma 4; what the shared layers got wrong was larger by far (1.34 and up).
MAX_LOGITS_DIFFERENCE = 1e-2
NUM_CHECKED_TOKENS = 16
# SmolLM2 on a CPU: 15 % of a step saved at 128 tokens, 8 % at 256 for 28 % more memory.
MAX_PLAIN_TOKENS = 128


@dataclass(frozen=True)
class Found:
    """How the weights in a checkpoint compare with those that the model has places for."""

    missing: list[str]
    unexpected: list[str]
    other_sizes: list[str]


def load_model(
    weights: Path,
    *,
    dtype: torch.dtype,
    quantization: QuantizationConfigMixin | None = None,
    device_map: dict[str, Any] | None = None,
) -> PreTrainedModel:
    """The language model in a checkpoint folder, of the class that its configuration names.

    Raises JobFailed with reason `model_unavailable` if not every weight was found: transformers
    fills the rest with random numbers and says so only in a log that nobody reads.
    """
    model, found = load_and_compare(
        weights, dtype=dtype, quantization=quantization, device_map=device_map
    )
    refuse_random(model, [*found.missing, *found.other_sizes])
    return model


def load_and_compare(
    weights: Path,
    *,
    dtype: torch.dtype,
    config: PreTrainedConfig | None = None,
    quantization: QuantizationConfigMixin | None = None,
    device_map: dict[str, Any] | None = None,
) -> tuple[PreTrainedModel, Found]:
    """A model, and what was and was not found for it; without `config`, by the folder's own."""
    config = config or AutoConfig.from_pretrained(weights)
    model, info = AutoModelForCausalLM.from_pretrained(
        weights,
        config=config,
        dtype=dtype,
        attn_implementation=attention_by_part(config),
        use_safetensors=True,  # no pickle is ever opened
        quantization_config=quantization,
        device_map=device_map,
        ignore_mismatched_sizes=True,  # they are told to the caller, who has better words
        output_loading_info=True,
    )
    other_sizes = [name for name, *_ in info["mismatched_keys"]]
    return model, Found(
        sorted(info["missing_keys"]), sorted(info["unexpected_keys"]), sorted(other_sizes)
    )


def refuse_random(model: PreTrainedModel, names: Sequence[str]) -> None:
    """Raise JobFailed if some weights of the model did not come from its checkpoint."""
    if not names:
        return
    named = ", ".join(names[:NUM_NAMED_KEYS])
    raise JobFailed(
        "model_unavailable",
        f"The checkpoint does not fit {type(model).__name__}: {len(names)} weights are missing or "
        f"have another size, for example {named}. They would be random numbers. Fetch the model "
        "anew, or choose another revision of it.",
    )


def attention_by_part(config: PreTrainedConfig) -> str | dict[str, str]:
    """The attention to compute with: PyTorch's fused one in the language model.

    Named for that part alone where there are several: Gemma 4's audio tower has no such
    attention, and one name for all parts stops it from loading. FlashAttention 2 is no choice:
    Gemma 4 refuses it, and its heads of 512 exceed the 256 that it knows (flash-attention #2427).
    """
    return {"text_config": "sdpa"} if "text_config" in config.sub_configs else "sdpa"


@contextmanager
def attention_for(model: PreTrainedModel, device: Device, *, longest: int) -> Iterator[None]:
    """Compute rows of at most `longest` tokens with what is fastest for them, in this block.

    The backward pass of PyTorch's fused attention on a CPU costs 5 ms a layer even for 60 tokens,
    an eighth of a step of SmolLM2; plain products and a softmax take a fraction of it. They keep
    a matrix of T x T in each layer, so long rows stay with the fused one.
    """
    if device.name != "cpu" or longest > MAX_PLAIN_TOKENS:
        yield
        return
    usual = attention_by_part(model.config)
    plain = dict.fromkeys(usual, "eager") if isinstance(usual, dict) else "eager"
    model.set_attn_implementation(plain)
    try:
        yield
    finally:
        model.set_attn_implementation(usual)


def check_shared_layers(model: PreTrainedModel) -> None:
    """Raise JobFailed if layers that share keys and values need the cache to be right.

    Some versions of transformers computed other logits without a cache, as in training, than
    with one, as in inference (transformers #45242): the loss looks healthy and the model is not.
    """
    text = model.config.get_text_config()
    if not getattr(text, "num_kv_shared_layers", 0):
        return
    input_ids = (torch.arange(NUM_CHECKED_TOKENS, device=model.device) % text.vocab_size)[None]
    was_training = model.training
    model.eval()
    with torch.inference_mode():
        cached, plain = (
            model(input_ids=input_ids, use_cache=use_cache).logits for use_cache in (True, False)
        )
    model.train(was_training)
    refuse_other_logits(cached, plain)


def refuse_other_logits(cached: torch.Tensor, plain: torch.Tensor) -> None:
    """Raise JobFailed if two ways of computing logits (B, T, V) differ."""
    difference = (cached.float() - plain.float()).abs().max().item()
    if not difference <= MAX_LOGITS_DIFFERENCE:  # also if it is not a number
        raise JobFailed(
            "trainer_error",
            "The installed transformers computes this model's shared layers differently in "
            f"training and in inference (logits differ by {difference:.3g}). "
            "Install the version that requirements.txt names.",
        )
