"""Checkpoints that outlive the process: written whole or not at all, and found again.

A folder is filled under another name, gets its marker last, and only then its own name. The
marker holds the size and digest of every file, what the run had counted, and what the run was
made of, so that a damaged checkpoint or one of another run is never gone on from. A folder
`best-<step>` holds the weights of the best evaluation in the same way.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .totals import Totals

if TYPE_CHECKING:
    from .spec import JobSpec

MARKER = "complete.json"
PARTIAL = ".partial"
NAME = re.compile(r"checkpoint-(\d+)")
BEST_NAME = re.compile(r"best-(\d+)")
# Without one of these the loop would go on all the same, with fresh moments or other batches.
NEEDED = frozenset({"optimizer.pt", "scheduler.pt", "rng_state.pth", "trainer_state.json"})
# They change what is said and kept, not what is learned.
FREE_HYPERPARAMS = frozenset(
    {"checkpoint_every", "logging_steps", "eval_steps", "early_stopping_patience"}
)

Ingredients = Mapping[str, Any]


class Damaged(Exception):
    """This folder is no complete checkpoint; the message says what is wrong with it."""


@dataclass(frozen=True)
class Best:
    """The lowest loss on the held-out examples so far, and how many evaluations ago it was."""

    step: int | None = None
    loss: float | None = None
    num_since: int = 0


@dataclass(frozen=True)
class Checkpoint:
    """A complete checkpoint on disk."""

    path: Path
    totals: Totals
    best: Best
    made_of: Ingredients

    @property
    def best_folder(self) -> Path | None:
        """Where the best weights up to this step are."""
        return None if self.best.step is None else best_folder(self.path.parent, self.best.step)


def ingredients(spec: JobSpec) -> Ingredients:
    """What shapes the weights, the optimizer and the order of the data.

    The number of steps is left out: a new job may go on for longer.
    """
    names = ("model", "revision", "model_source", "method", "lora_target_pattern")
    values = {name: getattr(spec, name) for name in names}
    values |= {"dataset_sha256": spec.dataset_sha256, "seed": spec.seed}
    hyperparams = asdict(spec.hyperparams)
    return values | {name: hyperparams[name] for name in hyperparams.keys() - FREE_HYPERPARAMS}


def differences(checkpoint: Checkpoint, made_of: Ingredients) -> str:
    """What another run did otherwise, in words; empty if it was made of the same."""
    different = [
        f"{name} is {checkpoint.made_of.get(name, 'unknown')} there and {made_of[name]} here"
        for name in sorted(made_of)
        if name not in checkpoint.made_of or checkpoint.made_of[name] != made_of[name]
    ]
    return ", ".join(different)


def best_folder(directory: Path, step: int) -> Path:
    return directory / f"best-{step}"


def write_folder(path: Path, fill: Callable[[Path], None], **facts: Any) -> int:
    """Let `fill` write into a folder that has its name only once it is complete.

    `facts` go into the marker. Returns the size of the files in bytes. After any error nothing
    is left, and an earlier folder of that name is as it was.
    """
    partial = path.with_name(path.name + PARTIAL)
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        fill(partial)
        size_bytes = _mark_complete(partial, facts)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    if path.exists():
        shutil.rmtree(path)
    partial.replace(path)
    _sync(path.parent)
    return size_bytes


def _mark_complete(path: Path, facts: Mapping[str, Any]) -> int:
    files = [_describe(path, file) for file in sorted(path.rglob("*")) if file.is_file()]
    with (path / MARKER).open("w", encoding="utf-8") as stream:
        json.dump({**facts, "files": files}, stream)
        stream.flush()
        os.fsync(stream.fileno())
    _sync(path)
    return sum(file["size_bytes"] for file in files)


def _describe(root: Path, file: Path) -> dict[str, Any]:
    with file.open("rb") as stream:
        digest = hashlib.file_digest(stream, "sha256").hexdigest()
        os.fsync(stream.fileno())
        size = stream.seek(0, os.SEEK_END)
    return {"path": file.relative_to(root).as_posix(), "size_bytes": size, "sha256": digest}


def _sync(directory: Path) -> None:
    """Make the names in a directory outlive a power cut."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_checkpoint(
    path: Path, fill: Callable[[Path], None], *, totals: Totals, best: Best, made_of: Ingredients
) -> int:
    """Write a checkpoint and return its size in bytes."""
    return write_folder(path, fill, totals=asdict(totals), best=asdict(best), made_of=dict(made_of))


def read_checkpoint(path: Path) -> Checkpoint:
    """The checkpoint in this folder. Raises Damaged unless every file is there in its size."""
    marker = read_marker(path)
    try:
        totals = Totals.from_json(marker["totals"])
        best = Best(**marker["best"])
        made_of = dict(marker["made_of"])
    except (KeyError, TypeError, ValueError) as error:
        raise Damaged(f"{MARKER} cannot be understood") from error
    missing = NEEDED - {file["path"] for file in marker["files"]}
    if missing:
        raise Damaged(f"{min(missing)} is missing")
    if path.name != f"checkpoint-{totals.step}":
        raise Damaged(f"it is of step {totals.step}")
    return Checkpoint(path, totals, best, made_of)


def read_marker(path: Path) -> dict[str, Any]:
    """What the marker of a folder says. Raises Damaged if a file does not have its size."""
    try:
        marker = json.loads((path / MARKER).read_text(encoding="utf-8"))
        for file in marker["files"]:
            if (path / file["path"]).stat().st_size != file["size_bytes"]:
                raise Damaged(f"{file['path']} does not have its size")
    except FileNotFoundError as error:
        raise Damaged(f"{Path(error.filename).name} is missing") from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(f"{MARKER} cannot be read") from error
    return marker


def check_digests(path: Path) -> None:
    """Raise Damaged unless every file is the one that was written, byte by byte."""
    for file in read_marker(path)["files"]:
        with (path / file["path"]).open("rb") as stream:
            if hashlib.file_digest(stream, "sha256").hexdigest() != file["sha256"]:
                raise Damaged(f"{file['path']} was changed or damaged")


def folders(directory: Path, name: re.Pattern[str] = NAME) -> list[tuple[int, Path]]:
    """Step and path of the checkpoint folders in a directory, most steps first."""
    if not directory.is_dir():
        return []
    found = [
        (int(match[1]), path)
        for path in directory.iterdir()
        if path.is_dir() and (match := name.fullmatch(path.name))
    ]
    return sorted(found, reverse=True)


def remove_partial(directory: Path) -> None:
    """Remove what was being written when the process was killed."""
    if directory.is_dir():
        for path in directory.glob(f"*{PARTIAL}"):
            shutil.rmtree(path)
