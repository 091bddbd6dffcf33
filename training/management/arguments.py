"""Kinds of command line arguments."""

from __future__ import annotations

import argparse

from gligabao.rest import MAX_LIMIT, PLAIN_NUMBER


def count(text: str) -> int:
    """A whole number from 0, small enough for every database."""
    if not PLAIN_NUMBER.fullmatch(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0")
    return int(text)


def limit(text: str) -> int:
    """How many rows at most; capped as in the API."""
    number = count(text)
    if number == 0:
        raise argparse.ArgumentTypeError("must be at least 1")
    return min(number, MAX_LIMIT)
