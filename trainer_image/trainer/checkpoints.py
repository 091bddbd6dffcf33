"""Checkpoints that outlive the process: marked when complete, found again, counted on.

A checkpoint folder is written file by file and may be cut off at any of them. The marker comes
last and names every file, so a folder without a fitting marker does not count.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path

MARKER = "complete.json"
NAME = re.compile(r"checkpoint-(\d+)")


@dataclass(frozen=True)
class Totals:
    """What a run has counted so far; a resumed run goes on from here."""

    step: int = 0
    tokens: int = 0
    loss_sum: float = 0.0  # of the loss of every optimizer step


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    totals: Totals


def mark_complete(path: Path, totals: Totals) -> int:
    """Write the marker of a finished checkpoint and return the size of its files in bytes."""
    files = [_describe(path, file) for file in sorted(path.rglob("*")) if file.is_file()]
    marker = {"totals": asdict(totals), "files": files}
    partial = path / f"{MARKER}.partial"
    with partial.open("w", encoding="utf-8") as stream:
        json.dump(marker, stream)
        stream.flush()
        os.fsync(stream.fileno())
    partial.replace(path / MARKER)
    return sum(file["size_bytes"] for file in files)


def _describe(root: Path, file: Path) -> dict[str, str | int]:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
        size = stream.seek(0, os.SEEK_END)
    return {"path": file.relative_to(root).as_posix(), "size_bytes": size, "sha256": digest}


def valid_checkpoint(path: Path) -> Checkpoint | None:
    """The checkpoint in this folder if its marker is there and every file has its size."""
    try:
        marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
        totals = Totals(**marker["totals"])
        fits = all(
            (path / file["path"]).stat().st_size == file["size_bytes"] for file in marker["files"]
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return Checkpoint(path, totals) if fits and marker["files"] else None


def newest_checkpoint(directory: Path, *, before_step: int) -> Checkpoint | None:
    """The valid checkpoint with the most steps that leaves at least one step to do."""
    for path in _folders(directory):
        checkpoint = valid_checkpoint(path)
        if checkpoint and checkpoint.totals.step < before_step:
            return checkpoint
    return None


def remove_unfinished(directory: Path) -> None:
    """Remove checkpoint folders that were cut off; the run would write into them again."""
    for path in _folders(directory):
        if valid_checkpoint(path) is None:
            shutil.rmtree(path)


def _folders(directory: Path) -> list[Path]:
    """The checkpoint folders in a directory, most steps first."""
    if not directory.is_dir():
        return []
    found = [
        (int(match[1]), path)
        for path in directory.iterdir()
        if path.is_dir() and (match := NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found, reverse=True)]
