"""Keeps the checkpoints of one run: which one to go on from, when to write, what to drop."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from safetensors import SafetensorError

from .checkpoints import (
    BEST_NAME,
    MARKER,
    Best,
    Checkpoint,
    Damaged,
    best_folder,
    check_digests,
    differences,
    folders,
    ingredients,
    read_checkpoint,
    remove_partial,
    write_checkpoint,
    write_folder,
)
from .errors import first_line, is_out_of_memory
from .totals import round_to

if TYPE_CHECKING:
    from .reporter import Reporter
    from .spec import JobSpec
    from .totals import Totals

KEPT_CHECKPOINTS = 2  # the newest, and one more in case that one is damaged
MIB = 2**20


class Keeper:
    """The checkpoints in `checkpoint_dir`, which is this job's own."""

    def __init__(self, spec: JobSpec, reporter: Reporter) -> None:
        self._directory = Path(spec.checkpoint_dir)
        self._other = Path(spec.resume_from) if spec.resume_from else None
        self._num_train_steps = spec.num_train_steps
        self._made_of = ingredients(spec)
        self._reporter = reporter
        self._has_failed = False  # the last time something was to be written

    def find(self) -> Checkpoint | None:
        """The newest sound checkpoint of this run, or of the job that it continues.

        Those that cannot be used are named in warnings; damaged ones of this job are removed,
        because the run will write there again.
        """
        remove_partial(self._directory)
        found = next(self._sound(self._directory, is_own=True), None)
        if found is None and self._other:
            found = next(self._sound(self._other, is_own=False), None)
            if found:
                self._adopt_best(found)
        return found

    def _sound(self, directory: Path, *, is_own: bool) -> Iterator[Checkpoint]:
        for step, path in folders(directory):
            try:
                checkpoint = read_checkpoint(path)
                if step > self._num_train_steps:
                    continue  # of a longer run
                different = differences(checkpoint, self._made_of)
                if different:
                    self._skip(path, f"it belongs to another run: {different}")
                    continue
                check_digests(path)
                if checkpoint.best_folder:
                    check_digests(checkpoint.best_folder)
            except Damaged as problem:
                self._skip(path, f"it is damaged: {problem}")
                if is_own:
                    shutil.rmtree(path)
                continue
            yield checkpoint

    def _skip(self, path: Path, why: str) -> None:
        self._reporter.report(
            "warning",
            code="checkpoint_skipped",
            message=f"{path.name} is not gone on from: {why}.",
        )

    def _adopt_best(self, checkpoint: Checkpoint) -> None:
        """Copy the other job's best weights: its folder may be gone before this job ends."""
        source = checkpoint.best_folder
        if source is None:
            return

        def copy(folder: Path) -> None:
            ignore = shutil.ignore_patterns(MARKER)  # the copy gets its own, last
            shutil.copytree(source, folder, ignore=ignore, dirs_exist_ok=True)

        write_folder(self._directory / source.name, copy)

    def write(
        self, fill: Callable[[Path], None], totals: Totals, best: Best, eval_loss: float | None
    ) -> None:
        """Write a checkpoint of this step and report it; drop those that are too old.

        A full disk is no reason to end a run: it goes on, and says what it lacks.
        """
        path = self._directory / f"checkpoint-{totals.step}"

        def write() -> int:
            return write_checkpoint(path, fill, totals=totals, best=best, made_of=self._made_of)

        size_bytes = self._try(write, f"The checkpoint of step {totals.step}")
        if size_bytes is None:
            return
        fields = {"step": totals.step, "path": path.name, "size_bytes": size_bytes}
        if eval_loss is not None:
            fields["eval_loss"] = round_to(eval_loss)
        if best.step is not None:
            fields["is_best"] = best.step == totals.step
        self._reporter.report("checkpoint", **fields)
        self._drop_old(best)

    def write_best(self, fill: Callable[[Path], None], step: int) -> bool:
        """Write the best weights so far. False: there is no room for them."""
        folder = best_folder(self._directory, step)
        size_bytes = self._try(
            lambda: write_folder(folder, fill), f"The best weights, of step {step},"
        )
        if size_bytes is None:
            return False
        self._drop_old(Best(step))  # room for the checkpoint that may follow
        return True

    def _try(self, write: Callable[[], int], what: str) -> int | None:
        """The size of what was written, or None after a warning, said once until it works again."""
        try:
            size_bytes = write()
        except (OSError, RuntimeError, SafetensorError) as error:
            # torch and safetensors have errors of their own for a disk that takes no more.
            if is_out_of_memory(error):
                raise
            if not self._has_failed:
                self._has_failed = True
                self._reporter.report(
                    "warning", code="checkpoint_failed", message=self._failure(what, error)
                )
            return None
        self._has_failed = False
        return size_bytes

    def _failure(self, what: str, error: Exception) -> str:
        there = next(path for path in (self._directory, *self._directory.parents) if path.exists())
        free_mib = shutil.disk_usage(there).free // MIB
        # torch only says at which byte of its file it noticed.
        is_unclear = isinstance(error, RuntimeError)
        why = "a file could not be written" if is_unclear else first_line(error)
        kept = [step for step, _ in folders(self._directory)]
        then = f"from step {kept[0]}" if kept else "from the start"
        return (
            f"{what} could not be kept ({why}; {free_mib} MiB are free). "
            f"Training goes on; if it is interrupted now, it resumes {then}."
        )

    def _drop_old(self, best: Best) -> None:
        """Keep the newest checkpoints, and the best weights that they or the run need."""
        mine = []
        for _, path in folders(self._directory):
            try:
                checkpoint = read_checkpoint(path)
            except Damaged:
                continue
            if not differences(checkpoint, self._made_of):
                mine.append(checkpoint)
        for old in mine[KEPT_CHECKPOINTS:]:
            shutil.rmtree(old.path)
        needed = {checkpoint.best.step for checkpoint in mine[:KEPT_CHECKPOINTS]} | {best.step}
        for step, path in folders(self._directory, BEST_NAME):
            if step not in needed:
                shutil.rmtree(path)

    def read_best(self, best: Best, restore: Callable[[Path], None]) -> bool:
        """Let `restore` read the best weights. False, after a warning: they were damaged."""
        if best.step is None:
            return False
        folder = best_folder(self._directory, best.step)
        try:
            check_digests(folder)
        except Damaged as problem:
            self._reporter.report(
                "warning",
                code="best_weights_lost",
                message=f"The best weights, of step {best.step}, are damaged: {problem}. "
                "Those of the last step are handed over instead.",
            )
            return False
        restore(folder)
        return True
