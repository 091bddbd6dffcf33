"""A file on its way in: copied to disk and validated in one pass, then kept by its digest."""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from django.conf import settings

from datasets.formats import Validation, validate
from datasets.models import VERSION_MTIME_NS, DatasetVersion
from gligabao.errors import StorageError, TooLarge

PREFIX = "dataset-"
STALE_SECONDS = 24 * 3600  # a draft this old was left behind by a process that was killed


@dataclass(frozen=True)
class Staged:
    """A complete copy on our disk, and what validation found."""

    path: Path
    validation: Validation


@contextmanager
def staged(
    file: BinaryIO,
    *,
    max_bytes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> Iterator[Staged]:
    """Copy and validate a file; the copy is gone afterwards unless `keep_version` took it.

    Raises TooLarge over `max_bytes` and StorageError if it cannot be written.
    """
    settings.TEMP_DIR.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=settings.TEMP_DIR, prefix=PREFIX) as copy:
        reader = _Tee(file, copy, max_bytes)
        validation = validate(reader, max_row_bytes=settings.MAX_ROW_BYTES, progress=progress)
        reader.write_through()
        yield Staged(Path(copy.name), validation)


def keep_version(item: Staged) -> DatasetVersion:
    """Put a valid copy among the versions; return its row, not saved.

    Safe to repeat and to do twice at once: the name is the digest of the content.
    """
    validation = item.validation
    version = DatasetVersion(
        sha256=validation.sha256,
        size_bytes=validation.size_bytes,
        num_records=validation.num_records,
        format=validation.format,
        report=validation.report,
    )
    with disk_errors():
        settings.DATASET_VERSIONS_DIR.mkdir(parents=True, exist_ok=True)
        if not version.is_intact:
            os.utime(item.path, ns=(VERSION_MTIME_NS, VERSION_MTIME_NS))
            draft = item.path.with_name(f"{item.path.name}.link")
            os.link(item.path, draft)
            os.replace(draft, version.path)
            sync_folder_to_disk(version.path.parent)
    return version


def save_version(version: DatasetVersion, *, db: str) -> None:
    """Write the row of a version unless it is there; its content cannot differ."""
    DatasetVersion.objects.using(db).get_or_create(
        sha256=version.sha256,
        defaults={
            "size_bytes": version.size_bytes,
            "num_records": version.num_records,
            "format": version.format,
            "report": version.report,
        },
    )


def sync_folder_to_disk(folder: Path) -> None:
    """Make renames and links in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_stale_drafts() -> None:
    for path in settings.TEMP_DIR.glob(f"{PREFIX}*"):
        if time.time() - path.stat().st_mtime > STALE_SECONDS:
            path.unlink(missing_ok=True)


@contextmanager
def disk_errors() -> Iterator[None]:
    """Say what the disk refused in words. Raises StorageError."""
    try:
        yield
    except OSError as error:
        raise StorageError(f"The file cannot be stored: {error.strerror}.") from error


class _Tee:
    """Reads a file and writes what it read to a copy."""

    def __init__(self, file: BinaryIO, copy: BinaryIO, max_bytes: int | None) -> None:
        self._file = file
        self._copy = copy
        self._max_bytes = max_bytes
        self._size = 0

    def read(self, size: int) -> bytes:
        chunk = self._file.read(size)
        self._size += len(chunk)
        if self._max_bytes is not None and self._size > self._max_bytes:
            raise TooLarge(
                f"The file is larger than {self._max_bytes} bytes (GLIGABAO_MAX_UPLOAD_BYTES)."
            )
        with disk_errors():
            self._copy.write(chunk)
        return chunk

    def write_through(self) -> None:
        with disk_errors():
            self._copy.flush()
            os.fsync(self._copy.fileno())
