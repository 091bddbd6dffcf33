"""The datasets directory: one folder per dataset, with a manifest and the file.

Folders of uploads are ours: their names are made from a digest, their file is `data.jsonl`.
All other folders belong to whoever put them there; we only read them.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from datasets.manifest import BAD_MANIFEST, FILE_NAME, Manifest
from datasets.models import Dataset, DatasetStatus
from datasets.services.staging import disk_errors, sync_folder_to_disk

SAMPLE_FOLDER = "/sample"  # with a slash, so that no folder on disk can have this name
SAMPLE_FILE = "gligabao_facts.jsonl"
SAMPLE_PATH = settings.BASE_DIR / "datasets" / "sample"
UPLOAD_FILE = "data.jsonl"
UPLOAD_FOLDER = re.compile(r"upload-[0-9a-f]{16}")


def datasets_dir(db: str) -> Path:
    """The folder that holds the datasets of one database."""
    if db == "default":
        return settings.DATASETS_DIR
    return settings.DATA_DIR / f"datasets_training_{db}"


def folder_path(folder: str, *, db: str) -> Path:
    return SAMPLE_PATH if folder == SAMPLE_FOLDER else datasets_dir(db) / folder


def data_path(dataset: Dataset, *, db: str) -> Path:
    return folder_path(dataset.folder, db=db) / dataset.file


def upload_folder(filename: str) -> str:
    """The folder of an uploaded file; nothing of the client's name gets into a path."""
    return f"upload-{hashlib.sha256(filename.encode('utf-8')).hexdigest()[:16]}"


def is_upload(dataset: Dataset) -> bool:
    return UPLOAD_FOLDER.fullmatch(dataset.folder) is not None


def live_status(dataset: Dataset, *, db: str) -> DatasetStatus:
    """The status as it is now: a file that went missing or was changed shows without a sync."""
    if dataset.report.get("code") == BAD_MANIFEST:
        is_there = (folder_path(dataset.folder, db=db) / FILE_NAME).exists()
        return DatasetStatus.INVALID if is_there else DatasetStatus.MISSING
    try:
        found = data_path(dataset, db=db).stat()
    except OSError:
        return DatasetStatus.MISSING
    if (found.st_size, found.st_mtime_ns) != (dataset.size_bytes, dataset.mtime_ns):
        return DatasetStatus.CHANGED
    return DatasetStatus.INVALID if dataset.report.get("error_count") else DatasetStatus.READY


@contextmanager
def directory_lock(db: str) -> Iterator[None]:
    """One writer at a time, over processes, so that folder and row change together."""
    root = datasets_dir(db)
    with disk_errors():
        root.mkdir(parents=True, exist_ok=True)
    with (root / ".lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def prepared_folder(folder: str, content: Path, manifest: Manifest, *, db: str) -> Iterator[Path]:
    """Copy a file and its manifest beside the folder, ready for `put_in_place`.

    A copy, not a link: whoever edits the folder's file must not change what jobs train on.
    """
    with disk_errors():
        root = datasets_dir(db)
        root.mkdir(parents=True, exist_ok=True)
        draft = Path(tempfile.mkdtemp(dir=root, prefix=f".{folder}-"))
    try:
        with disk_errors():
            shutil.copyfile(content, draft / UPLOAD_FILE)
            (draft / FILE_NAME).write_text(manifest.as_toml(), encoding="utf-8")
            for name in (UPLOAD_FILE, FILE_NAME):
                _write_through(draft / name)
        yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def put_in_place(draft: Path, folder: str, *, db: str) -> os.stat_result:
    """Move the prepared files into the folder; returns the facts of the data file."""
    target = folder_path(folder, db=db)
    with disk_errors():
        target.mkdir(parents=True, exist_ok=True)
        for name in (UPLOAD_FILE, FILE_NAME):
            os.replace(draft / name, target / name)
        sync_folder_to_disk(target)
        return (target / UPLOAD_FILE).stat()


def _write_through(path: Path) -> None:
    with path.open("rb") as file:
        os.fsync(file.fileno())
