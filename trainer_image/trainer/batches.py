"""The order of the examples: the longest first, then a new one in each epoch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch.utils.data import Sampler


class LongestFirst(Sampler[int]):
    """Gives indices of examples, each once in an epoch.

    The first `num_first` of the first epoch are the longest, longest first: a job that needs too
    much memory fails at its first step and not after an hour. All else is shuffled. The order
    depends on nothing but lengths, seed and epoch, so a resumed run finds it again.
    """

    def __init__(self, lengths: Sequence[int], *, num_first: int, seed: int) -> None:
        self._lengths = lengths
        self._num_first = num_first
        self._seed = seed
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Choose the order that the next iteration has; transformers and accelerate call it."""
        self._epoch = epoch

    def __len__(self) -> int:
        return len(self._lengths)

    def __iter__(self) -> Iterator[int]:
        # Two seeds that differ by one give unrelated orders: the generator hashes its seed.
        generator = torch.Generator().manual_seed(self._seed * 1_000_003 + self._epoch)
        order = torch.randperm(len(self._lengths), generator=generator).tolist()
        if self._epoch == 0:
            longest = sorted(order, key=lambda index: -self._lengths[index])[: self._num_first]
            first = set(longest)
            order = longest + [index for index in order if index not in first]
        return iter(order)
