"""Numbers and a histogram from the distribution of a dataset's tokens. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

BINS = 24


@dataclass(frozen=True)
class Bin:
    """Examples with `start` to `stop` tokens, `stop` not included."""

    start: int
    stop: int
    count: int


@dataclass(frozen=True)
class TokenSummary:
    """Of the examples: their tokens, and what becomes of them at `max_length`.

    `num_over` are longer and dropped by the trainer; `num_without_answer` have nothing to learn
    among their first `max_length` tokens.
    """

    max_length: int
    count: int
    num_tokens: int
    p50: int
    p95: int
    max: int
    num_over: int
    num_without_answer: int
    bins: tuple[Bin, ...]


def summary(
    lengths: Mapping[str, int], firsts: Mapping[str, int], *, max_length: int
) -> TokenSummary:
    """`lengths` and `firsts` as models/token_statistics.py has them."""
    by_length = sorted((int(length), count) for length, count in lengths.items())
    longest = by_length[-1][0] if by_length else 0
    return TokenSummary(
        max_length=max_length,
        count=sum(count for _, count in by_length),
        num_tokens=sum(length * count for length, count in by_length),
        p50=_percentile(by_length, 50),
        p95=_percentile(by_length, 95),
        max=longest,
        num_over=sum(count for length, count in by_length if length > max_length),
        num_without_answer=sum(
            count for first, count in firsts.items() if not 0 <= int(first) < max_length
        ),
        bins=_bins(by_length, longest),
    )


def _percentile(by_length: list[tuple[int, int]], percent: int) -> int:
    """The nearest-rank percentile, as the trainer reports it; 0 without examples."""
    total = sum(count for _, count in by_length)
    rank = max(1, -(-total * percent // 100))
    for length, count in by_length:
        rank -= count
        if rank <= 0:
            return length
    return 0


def _bins(by_length: list[tuple[int, int]], longest: int) -> tuple[Bin, ...]:
    if not by_length:
        return ()
    width = max(1, -(-(longest + 1) // BINS))
    counts = [0] * -(-(longest + 1) // width)
    for length, count in by_length:
        counts[length // width] += count
    return tuple(Bin(i * width, (i + 1) * width, count) for i, count in enumerate(counts))
