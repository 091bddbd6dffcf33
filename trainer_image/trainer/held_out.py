"""Sets rows aside for evaluation: never trained on, and the same ones for the same seed."""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Sequence

from .errors import JobFailed
from .rendering import Encoded


def hold_out(
    rows: Sequence[Sequence[Encoded]], *, fraction: float, seed: int
) -> tuple[list[Encoded], list[Encoded]]:
    """The examples to train on and those to evaluate with, each in the order of the rows.

    About `fraction` of the examples are held out, at least one and never all. Which ones depends
    on the seed and on what they say, not on their order. Rows that begin with the same example
    stay on the same side, and so do the examples of one row.
    """
    groups: dict[bytes, list[int]] = {}
    for index, row in enumerate(rows):
        groups.setdefault(_digest(row[0], seed), []).append(index)
    if len(groups) < 2:
        raise JobFailed(
            "dataset_invalid",
            f"Examples cannot be held out for evaluation: {_few(len(rows))}. "
            "Add rows or set eval_fraction to 0.",
        )
    sizes = {key: sum(len(rows[index]) for index in group) for key, group in groups.items()}
    num_examples = sum(sizes.values())
    target = min(max(1, round(fraction * num_examples)), num_examples - 1)
    chosen = _choose(sizes, target)
    held_out = {index for key in chosen for index in groups[key]}
    return (
        [one for index, row in enumerate(rows) if index not in held_out for one in row],
        [one for index, row in enumerate(rows) if index in held_out for one in row],
    )


def _choose(sizes: dict[bytes, int], target: int) -> list[bytes]:
    """Groups in the order of their digests, as many as fit into `target` examples."""
    chosen, room = [], target
    for key in sorted(sizes):
        if sizes[key] <= room:
            chosen.append(key)
            room -= sizes[key]
    return chosen or [min(sizes, key=lambda key: (sizes[key], key))]


def _digest(example: Encoded, seed: int) -> bytes:
    ids = array("q", example.input_ids).tobytes()
    return hashlib.sha256(seed.to_bytes(8, "little") + ids).digest()


def _few(num_rows: int) -> str:
    if num_rows == 1:
        return "the dataset has only one row that can be trained on"
    return f"all of the {num_rows} rows that can be trained on are the same"
