"""Texts of the pages."""

import pytest

from training.console.job_texts import duration_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.4, "0 s"), (59.6, "1 min"), (125, "2 min 5 s"), (3600, "1 h"),
     (90061, "1 d 1 h")],
)  # fmt: skip
def test_two_largest_units(seconds, text):
    assert duration_text(seconds) == text
