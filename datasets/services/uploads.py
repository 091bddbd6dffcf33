"""Uploads: a staged file becomes the content of a name."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import BinaryIO

from django.db.models import Q
from django.utils import timezone

from datasets.formats import check_filename
from datasets.manifest import Manifest, check_texts
from datasets.models import Dataset, DatasetStatus
from datasets.services import folders
from datasets.services.staging import Staged, keep_version, save_version, staged
from gligabao.databases import write_transaction
from gligabao.errors import InvalidRequest


class Outcome(Enum):
    CREATED = "created"
    CHANGED = "changed"
    SAME = "same"


def save_upload(
    file: BinaryIO,
    *,
    filename: str,
    name: str | None = None,
    description: str | None = None,
    db: str,
    max_bytes: int | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Dataset, Outcome]:
    """Store a file under a name, or nothing at all.

    Raises InvalidRequest (a bad name, or the whole report), TooLarge, StorageError.
    """
    check_filename(filename)
    check_texts(name or "", description or "")
    with staged(file, max_bytes=max_bytes, progress=progress) as item:
        return store(item, filename=filename, name=name, description=description, db=db)


def store(
    item: Staged, *, filename: str, name: str | None, description: str | None, db: str
) -> tuple[Dataset, Outcome]:
    """Make a staged file the content of `filename`. Raises as save_upload.

    A name or description that is not given stays as it was. Two uploads of one name at once
    take turns; the later one counts.
    """
    check_filename(filename)
    check_texts(name or "", description or "")
    refuse_invalid(item)
    version = keep_version(item)
    folder = folders.upload_folder(filename)
    old = Dataset.objects.using(db).filter(Q(filename=filename) | Q(folder=folder)).first()
    manifest = Manifest(
        folders.UPLOAD_FILE,
        name or (old.name if old else filename),
        description if description is not None else (old.description if old else ""),
    )
    with (
        folders.prepared_folder(folder, version.path, manifest, db=db) as draft,
        folders.directory_lock(db),
        write_transaction(db),
    ):
        save_version(version, db=db)
        dataset = _row_of(filename, folder, db=db)
        outcome = _outcome(dataset, version.sha256)
        found = folders.put_in_place(draft, folder, db=db)
        dataset.folder, dataset.file, dataset.mtime_ns = folder, manifest.file, found.st_mtime_ns
        dataset.name, dataset.description = manifest.name, manifest.description
        take_content(dataset, item)
        if outcome is not Outcome.SAME:
            dataset.updated_at = timezone.now()
        dataset.save(using=db)
    return dataset, outcome


def take_content(dataset: Dataset, item: Staged) -> None:
    """Fill in what validation found of the content that the name now stands for."""
    validation = item.validation
    dataset.sha256 = validation.sha256
    dataset.size_bytes = validation.size_bytes
    dataset.num_records = validation.num_records
    dataset.format = validation.format
    dataset.report = validation.report
    dataset.status = DatasetStatus.READY if validation.is_valid else DatasetStatus.INVALID


def refuse_invalid(item: Staged) -> None:
    """Raise InvalidRequest with the whole report unless the file can be trained on."""
    if item.validation.is_valid:
        return
    report = dict(item.validation.report)
    message, code, errors = (report.pop(key) for key in ("error", "code", "errors"))
    raise InvalidRequest(message, code=code, errors=errors, extra=report)


def _row_of(filename: str, folder: str, *, db: str) -> Dataset:
    """The row of a name, locked, or a new one.

    After a lost database a sync finds the folder of an upload without knowing its name. That row
    gets its name back here.
    """
    rows = Dataset.objects.using(db).select_for_update()
    dataset = rows.filter(filename=filename).first()
    nameless = rows.filter(folder=folder).exclude(filename=filename).first()
    if nameless is None:
        return dataset or Dataset(filename=filename)
    if dataset is not None:
        nameless.delete(using=db)
        return dataset
    nameless.filename = filename
    return nameless


def _outcome(dataset: Dataset, sha256: str) -> Outcome:
    if dataset.pk is None:
        return Outcome.CREATED
    return Outcome.SAME if dataset.sha256 == sha256 else Outcome.CHANGED
