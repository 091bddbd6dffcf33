"""Sizes and durations as people read them."""

import pytest
from django.utils import translation

from gligabao.units import duration_text, size_text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "0 s"), (0.4, "0 s"), (59.6, "1 min"), (125, "2 min 5 s"), (3600, "1 h"),
     (90061, "1 d 1 h")],
)  # fmt: skip
def test_two_largest_units(seconds, text):
    assert duration_text(seconds) == text


@pytest.mark.parametrize(
    ("size", "text"),
    [(0, "0 bytes"), (999, "999 bytes"), (1000, "1.0 kB"), (29306880, "29.3 MB"),
     (5 * 10**15, "5000.0 TB")],
)  # fmt: skip
def test_sizes_are_read_at_a_glance(size, text):
    assert size_text(size) == text


def test_sizes_are_written_as_the_reader_does():
    with translation.override("de"):
        assert size_text(29306880) == "29,3 MB"
