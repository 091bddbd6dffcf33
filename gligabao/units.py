"""Sizes and durations as people read them. Pure."""

from __future__ import annotations

from django.utils.formats import number_format


def count_text(value: int | float) -> str:
    """Such as `20,000`, the thousands marked as the reader's language does."""
    return number_format(value, use_l10n=True, force_grouping=True)


def size_text(size_bytes: int) -> str:
    """Such as `29.3 MB`; a kB has 1000 bytes."""
    size, unit = float(size_bytes), "bytes"
    for larger in ("kB", "MB", "GB", "TB"):
        if size < 1000:
            break
        size, unit = size / 1000, larger
    digits = 0 if unit == "bytes" else 1
    return f"{number_format(round(size, digits), decimal_pos=digits)} {unit}"


def duration_text(seconds: float) -> str:
    """Such as `2 min 5 s`: the two largest units."""
    left = round(seconds)
    parts = []
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        number, left = divmod(left, size)
        if number or (unit == "s" and not parts):
            parts.append(f"{number} {unit}")
    return " ".join(parts[:2])
