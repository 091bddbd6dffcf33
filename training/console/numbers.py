"""Measured numbers as the pages write them."""

from __future__ import annotations

from django.utils.formats import get_format

from training.event_text import number_text


def measured(value: float) -> str:
    """Four digits with the decimal mark of the reader's language, such as `0,1034` in German."""
    return number_text(value).replace(".", get_format("DECIMAL_SEPARATOR"))
