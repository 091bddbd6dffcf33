"""The hyperparameters a job may set, each with its range, and the rules across them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext
from django.utils.translation import gettext_lazy as _

from gligabao.errors import InvalidRequest

METHODS = ("lora", "qlora", "full")
GPU_METHODS = ("qlora",)  # 4-bit weights need CUDA
ADAPTER_METHODS = ("lora", "qlora")  # they train LoRA matrices beside frozen weights


@dataclass(frozen=True)
class Range:
    """Numbers of one kind, both ends included. Without a default the catalog has one."""

    kind: type[int] | type[float]
    minimum: float
    maximum: float
    meaning: Any  # a sentence, in the language of whoever reads it
    default: float | None = None

    @property
    def words(self) -> str:
        words = (
            gettext("a whole number from %(minimum)s to %(maximum)s")
            if self.kind is int
            else gettext("a number from %(minimum)s to %(maximum)s")
        )
        return words % {"minimum": _plain(self.minimum), "maximum": _plain(self.maximum)}

    @property
    def schema(self) -> dict[str, Any]:
        kind = "integer" if self.kind is int else "number"
        return {"type": kind, "minimum": self.minimum, "maximum": self.maximum}

    def problem(self, value: Any) -> tuple[str, str] | None:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if not is_number or (self.kind is int and not isinstance(value, int)):
            return "invalid", f"Must be {self.words}."
        if not self.minimum <= value <= self.maximum:  # NaN is not, either
            return "out_of_range", f"{repr(value)[:30]} is out of range. Must be {self.words}."
        return None


@dataclass(frozen=True)
class Choice:
    """One of a few words."""

    words_allowed: tuple[str, ...]
    meaning: Any  # a sentence, in the language of whoever reads it
    default: str

    @property
    def words(self) -> str:
        return gettext("one of %(words)s") % {"words": ", ".join(self.words_allowed)}

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "string", "enum": list(self.words_allowed)}

    def problem(self, value: Any) -> tuple[str, str] | None:
        return None if value in self.words_allowed else ("invalid", f"Must be {self.words}.")


@dataclass(frozen=True)
class Switch:
    """On or off."""

    meaning: Any  # a sentence, in the language of whoever reads it
    default: bool

    @property
    def words(self) -> str:
        return gettext("true or false")

    @property
    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}

    def problem(self, value: Any) -> tuple[str, str] | None:
        return None if isinstance(value, bool) else ("invalid", f"Must be {self.words}.")


HYPERPARAMS: Mapping[str, Range | Choice | Switch] = {
    "learning_rate": Range(float, 1e-8, 1.0, _("Peak learning rate.")),
    "lora_rank": Range(int, 1, 512, _("Rank of the LoRA matrices; not with `full`.")),
    "lora_alpha": Range(
        int, 1, 1024, _("Scale of the adapter, counts as alpha / rank; not with `full`.")
    ),
    "lora_dropout": Range(
        float, 0.0, 0.9, _("Share of the adapter's inputs left out; not with `full`."), 0.0
    ),
    "batch_size": Range(int, 1, 256, _("Examples that go through the model together.")),
    "gradient_accumulation_steps": Range(int, 1, 1024, _("Batches in one optimizer step."), 1),
    "max_length": Range(int, 16, 131072, _("Tokens; longer examples are dropped and counted.")),
    "warmup_ratio": Range(float, 0.0, 1.0, _("Share of the steps in which the rate rises."), 0.1),
    "lr_scheduler": Choice(
        ("cosine", "linear", "constant"), _("How the rate falls after its peak."), "cosine"
    ),
    "weight_decay": Range(float, 0.0, 1.0, _("Decay of the trained weights, as in AdamW."), 0.0),
    "max_grad_norm": Range(float, 0.0, 1000.0, _("Gradients are clipped to it; 0 is never."), 1.0),
    "packing": Switch(_("Put several short examples into one row of the batch."), default=False),
    "seed": Range(int, 0, 2**31 - 1, _("Seed of weights, order of the data and dropout.")),
    "eval_fraction": Range(
        float, 0.0, 0.5, _("Share of the examples held out for evaluation; 0 is none."), 0.0
    ),
    "eval_steps": Range(int, 1, 1_000_000, _("Steps between two evaluations."), 50),
    "early_stopping_patience": Range(
        int, 0, 1000, _("Evaluations without a better loss before the job ends; 0 is never."), 0
    ),
    "checkpoint_every": Range(int, 1, 1_000_000, _("Steps between two checkpoints."), 50),
    "logging_steps": Range(int, 1, 10_000, _("Steps between two progress reports."), 1),
}
DEFAULTS: Mapping[str, Any] = {
    name: allowed.default for name, allowed in HYPERPARAMS.items() if allowed.default is not None
}
LORA_HYPERPARAMS = tuple(name for name in HYPERPARAMS if name.startswith("lora_"))


def check_hyperparams(given: Any) -> dict[str, Any]:
    """Return the values if each is known and in range. Raises InvalidRequest naming each place."""
    if not isinstance(given, Mapping):
        raise InvalidRequest("hyperparams must be a JSON object.", code="invalid_request")
    problems = {name: _problem(name, value) for name, value in given.items()}
    _refuse({name: problem for name, problem in problems.items() if problem})
    return {
        name: float(value) if _is_float(HYPERPARAMS[name]) else value
        for name, value in given.items()
    }


def job_hyperparams(
    given: Any, *, method: str, model_defaults: Mapping[str, Any]
) -> dict[str, Any]:
    """All values that a job of this method runs with: those given, the model's, the defaults.

    A full fine-tune has none of `lora_*`. Raises InvalidRequest naming each place.
    """
    checked = check_hyperparams(given)
    values = {**DEFAULTS, **model_defaults, **checked}
    _refuse(_contradictions(checked, values, method))
    if method not in ADAPTER_METHODS:
        values = {name: values[name] for name in values if name not in LORA_HYPERPARAMS}
    return {name: values[name] for name in HYPERPARAMS if name in values}


def missing_hyperparams(model_defaults: Mapping[str, Any], method: str) -> list[str]:
    """The names that neither these defaults nor the general ones have a value for."""
    needed = set(HYPERPARAMS) - set(DEFAULTS) - set(model_defaults)
    if method not in ADAPTER_METHODS:
        needed -= set(LORA_HYPERPARAMS)
    return sorted(needed)


def _problem(name: Any, value: Any) -> tuple[str, str] | None:
    if name not in HYPERPARAMS:
        return "unknown_field", f"Unknown hyperparameter. Known: {', '.join(HYPERPARAMS)}."
    return HYPERPARAMS[name].problem(value)


def _contradictions(
    given: Mapping[str, Any], values: Mapping[str, Any], method: str
) -> dict[str, tuple[str, str]]:
    """What was asked for and would change nothing: better refused than ignored."""
    found = {}
    if method not in ADAPTER_METHODS:
        for name in LORA_HYPERPARAMS:
            if name in given:
                found[name] = ("contradiction", f"Method {method} has no LoRA. Leave it out.")
    if not values["eval_fraction"]:
        why = "It needs examples that are held out: set eval_fraction above 0."
        if values["early_stopping_patience"]:
            found["early_stopping_patience"] = ("contradiction", why)
        # Beside an explicit 0 it does no harm: so the values of one job start another.
        if "eval_steps" in given and "eval_fraction" not in given:
            found["eval_steps"] = ("contradiction", why)
    return found


def _refuse(problems: Mapping[Any, tuple[str, str]]) -> None:
    errors = [
        {"path": f"hyperparams.{str(name)[:100]}", "code": code, "message": message}
        for name, (code, message) in problems.items()
    ]
    if errors:
        first = errors[0]
        raise InvalidRequest(f"{first['path']}: {first['message']}", errors=errors)


def _is_float(allowed: Range | Choice | Switch) -> bool:
    return isinstance(allowed, Range) and allowed.kind is float


def _plain(number: float) -> str:
    """`1000000`, not `1e+06`; small ones as they are written in code."""
    return str(int(number)) if float(number).is_integer() else f"{number:g}"
