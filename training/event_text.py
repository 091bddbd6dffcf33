"""An event as one line of text, for pages and terminals alike.

The text is as hostile as what a trainer reported: whoever shows it escapes it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from gligabao.units import size_text

MAX_TEXT = 1000  # characters of one value

# What is shown of an event, in this order, where it is there. Logs show their text alone.
SHOWN_FIELDS: Mapping[str, tuple[str, ...]] = {
    "status": (
        "status", "reported", "is_stopping", "by", "resumed_from_step", "reason", "error",
        "final_loss", "best_eval_loss", "best_step", "stopped_early_at", "model_id",
    ),
    "progress": ("step", "loss", "learning_rate", "epoch", "tokens_per_second"),
    "log": ("text",),
    "checkpoint": ("step", "path", "size_bytes", "eval_loss", "is_best"),
    "eval": ("step", "eval_loss", "is_best"),
    "dataset": (
        "message", "num_examples", "num_held_out", "num_dropped", "num_without_label",
        "num_control_tokens", "num_trained_tokens", "length_p95", "length_max", "sample",
    ),
    "warning": ("code", "message"),
}  # fmt: skip
LOSSES = ("loss", "eval_loss", "final_loss", "best_eval_loss")  # null: it was no number
# Fields whose name says nothing that the text does not say.
BARE_FIELDS = ("status", "text", "message", "error", "path", "size_bytes")


def event_text(type: str, data: Mapping[str, Any], *, attempt: int = 1) -> str:
    """Such as `step 3 · loss 1.402`; a status also says which attempt, from the second on."""
    parts = []
    for name in SHOWN_FIELDS.get(type, ()):
        text = _value_text(name, data)
        if text:
            parts.append(text if name in BARE_FIELDS else f"{name} {text}")
    if type == "status" and attempt > 1:
        parts.append(f"attempt {attempt}")
    return " · ".join(parts)


def _value_text(name: str, data: Mapping[str, Any]) -> str:
    value = data.get(name)
    if name in LOSSES and value is None and name in data:
        return nonfinite_text(str(data.get("nonfinite", "")))
    if value is None or value == "":
        return ""
    if isinstance(value, str):
        return value[:MAX_TEXT]
    if isinstance(value, bool):
        return "yes" if value else "no"
    if name == "size_bytes" and isinstance(value, int):
        return size_text(value)
    if isinstance(value, int | float):
        return number_text(value)
    return json.dumps(value, ensure_ascii=False)[:MAX_TEXT]


def nonfinite_text(word: str) -> str:
    """What stands for a loss that was no number; empty for one that just was not there."""
    return {"nan": "NaN", "inf": "Infinity"}.get(word, "")


def number_text(value: int | float) -> str:
    """Whole numbers as they are, others with four digits."""
    if isinstance(value, int) or value.is_integer():
        return str(int(value))
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
