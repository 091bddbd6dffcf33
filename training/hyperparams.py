"""The hyperparameters a job may set, each with its range."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gligabao.errors import InvalidRequest


@dataclass(frozen=True)
class Range:
    """A range, both ends included."""

    kind: type
    minimum: float
    maximum: float
    meaning: str

    @property
    def words(self) -> str:
        kind = "a whole number" if self.kind is int else "a number"
        return f"{kind} from {self.minimum:g} to {self.maximum:g}"


HYPERPARAMS: Mapping[str, Range] = {
    "learning_rate": Range(float, 1e-8, 1.0, "Peak learning rate."),
    "lora_rank": Range(int, 1, 512, "Rank of the LoRA matrices."),
    "lora_alpha": Range(int, 1, 1024, "Scale of the adapter; it counts as alpha / rank."),
    "batch_size": Range(int, 1, 256, "Examples in one optimizer step."),
    "max_length": Range(int, 16, 131072, "Tokens; longer examples are dropped and counted."),
    "seed": Range(int, 0, 2**31 - 1, "Seed of weights, order of the data and dropout."),
    "checkpoint_every": Range(int, 1, 1_000_000, "Steps between two checkpoints."),
    "logging_steps": Range(int, 1, 10_000, "Steps between two progress reports."),
}


def check_hyperparams(given: Any) -> dict[str, Any]:
    """Return the values if each is known and in range. Raises InvalidRequest naming each place."""
    if not isinstance(given, Mapping):
        raise InvalidRequest("hyperparams must be a JSON object.", code="invalid_request")
    errors = [
        {"path": f"hyperparams.{str(name)[:100]}", "code": code, "message": message}
        for name, value in given.items()
        for code, message in [_problem(name, value)]
        if code
    ]
    if errors:
        first = errors[0]
        raise InvalidRequest(f"{first['path']}: {first['message']}", errors=errors)
    return {
        name: float(value) if HYPERPARAMS[name].kind is float else value
        for name, value in given.items()
    }


def _problem(name: str, value: Any) -> tuple[str, str]:
    allowed = HYPERPARAMS.get(name)
    if allowed is None:
        return "unknown_field", f"Unknown hyperparameter. Known: {', '.join(HYPERPARAMS)}."
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or (allowed.kind is int and not isinstance(value, int)):
        return "invalid", f"Must be {allowed.words}."
    if not math.isfinite(value) or not allowed.minimum <= value <= allowed.maximum:
        return "out_of_range", f"{value:g} is out of range. Must be {allowed.words}."
    return "", ""
