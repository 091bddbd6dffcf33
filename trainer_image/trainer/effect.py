"""Proves that the finished files change what the model says.

An adapter whose names do not fit is loaded without a word of complaint and changes nothing, so
what is compared is the model as the files make it, never the one that was trained in memory.

Letters in shapes: T tokens, N answer positions of one example, V vocabulary.
"""

from __future__ import annotations

import gc
import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from peft import PeftModel

from .adapters import AdapterInvalid, check_adapter
from .errors import JobFailed
from .evaluation import pad_together
from .full_models import load_full_model
from .label_loss import logits_at_labels
from .rendering import IGNORED, Encoded
from .totals import round_to

if TYPE_CHECKING:
    from transformers import PreTrainedModel

NUM_EXAMPLES = 8
# Of each answer its first tokens: with 262,144 words the logits of all take 134 MB.
NUM_POSITIONS = 16


@dataclass(frozen=True)
class BaseAnswers:
    """What the base model says at the answers of some training examples, before it is trained."""

    examples: list[Encoded]
    logits: list[torch.Tensor]  # (N, V) float32 each, in main memory
    dtype: torch.dtype  # in which the base model computed them


@dataclass(frozen=True)
class Effect:
    """How the tuned model differs from its base on training examples.

    The losses are means over the same positions. `needed_difference` is what the number type
    cannot tell from nothing.
    """

    max_logit_difference: float
    needed_difference: float
    base_loss: float
    tuned_loss: float
    num_examples: int
    num_positions: int

    def report(self) -> dict[str, int | float]:
        """For the `completed` report and training.json."""
        return {
            name: round_to(value) if isinstance(value, float) else value
            for name, value in asdict(self).items()
        }


def ask_base(
    model: PreTrainedModel | PeftModel, examples: Sequence[Encoded], *, check: Callable[[], None]
) -> BaseAnswers:
    """Ask the model before its first step; a fresh adapter is exactly no change."""
    # A first token is predicted by nothing: without another label there is no answer to compare.
    usable = [example for example in examples if _places(example)]
    if not usable:
        raise JobFailed("dataset_invalid", "No example holds a token that could be predicted.")
    stride = max(1, len(usable) // NUM_EXAMPLES)
    chosen = [_shortened(example) for example in usable[::stride][:NUM_EXAMPLES]]
    return BaseAnswers(chosen, _logits(model, chosen, check=check), model.dtype)


def _places(example: Encoded) -> list[int]:
    """Where the tokens stand that are to be predicted."""
    return [i for i, label in enumerate(example.labels) if i and label != IGNORED]


def _shortened(example: Encoded) -> Encoded:
    """Up to the last of the answer positions that are compared; what follows changes nothing."""
    end = _places(example)[:NUM_POSITIONS][-1] + 1
    return Encoded(example.input_ids[:end], example.labels[:end])


def _logits(
    model: PreTrainedModel | PeftModel, examples: Sequence[Encoded], *, check: Callable[[], None]
) -> list[torch.Tensor]:
    was_training = model.training
    model.eval()
    found = []
    for example in examples:
        check()
        logits, _ = logits_at_labels(model, pad_together([example], model.device))
        found.append(logits.cpu())
    model.train(was_training)
    return found


def measure_effect(
    base: BaseAnswers,
    trained: PreTrainedModel | PeftModel,
    output: Path,
    *,
    model_dir: Path,
    check: Callable[[], None],
) -> Effect:
    """Load the finished files and compare what they say with what the base model said.

    `trained` is used up: its base model carries the saved adapter afterwards, or its memory is
    given to the model in the files. Raises JobFailed with reason `artifact_invalid` if the files
    cannot be loaded, say nothing of use, or change nothing.
    """
    tuned = _load_saved(trained, output, model_dir=model_dir, dtype=base.dtype)
    effect = compare(base, _logits(tuned, base.examples, check=check))
    _refuse_none(effect)
    return effect


def _load_saved(
    trained: PreTrainedModel | PeftModel, output: Path, *, model_dir: Path, dtype: torch.dtype
) -> PreTrainedModel | PeftModel:
    try:
        if isinstance(trained, PeftModel):
            plain = trained.unload()  # no second copy of the base model
            check_adapter(output, plain)
            return PeftModel.from_pretrained(plain, output)
        device = trained.device
        trained.to("meta")  # its memory is needed
        gc.collect()
        return load_full_model(output, model_dir, dtype=dtype).to(device)
    except AdapterInvalid as problem:
        raise JobFailed(
            "artifact_invalid",
            f"The saved model cannot be used: {problem} This is a fault of the trainer, "
            "not of the dataset.",
        ) from problem


def compare(base: BaseAnswers, tuned: Sequence[torch.Tensor]) -> Effect:
    """The effect in numbers. tuned: logits (N, V) float32 of each example."""
    pairs = list(zip(base.logits, tuned, strict=True))
    differences = [(after - before).abs().max().item() for before, after in pairs]
    largest = max(before.abs().max().item() for before in base.logits)
    targets = [_targets(example) for example in base.examples]
    return Effect(
        # max() passes over a NaN that does not come first.
        max_logit_difference=math.nan if any(map(math.isnan, differences)) else max(differences),
        needed_difference=torch.finfo(base.dtype).eps * largest,
        base_loss=_mean_loss(base.logits, targets),
        tuned_loss=_mean_loss(tuned, targets),
        num_examples=len(base.examples),
        num_positions=sum(len(one) for one in targets),
    )


def _targets(example: Encoded) -> torch.Tensor:
    """(N,) int64"""
    return torch.tensor([label for label in example.labels[1:] if label != IGNORED])


def _mean_loss(logits: Sequence[torch.Tensor], targets: Sequence[torch.Tensor]) -> float:
    return torch.nn.functional.cross_entropy(
        torch.cat(list(logits)), torch.cat(list(targets))
    ).item()


def _refuse_none(effect: Effect) -> None:
    if not math.isfinite(effect.max_logit_difference):
        raise JobFailed(
            "artifact_invalid",
            "The saved weights give numbers that are not finite: lower the learning_rate.",
        )
    if effect.max_logit_difference <= effect.needed_difference:
        raise JobFailed(
            "artifact_invalid",
            "The trained weights have no effect: with them the model answers the training "
            f"prompts as its base model does (logits differ by {effect.max_logit_difference:.3g} "
            f"at most, and {effect.needed_difference:.3g} is no more than rounding). Raise the "
            "learning_rate or num_train_steps.",
        )
