"""The datasets directory and the table, made to agree: folders are the truth, rows follow."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from django.utils import timezone

from datasets import manifest as manifests
from datasets.formats import check_filename
from datasets.manifest import BAD_MANIFEST, Manifest
from datasets.models import Dataset, DatasetStatus, DatasetVersion
from datasets.services import folders
from datasets.services.staging import (
    Staged,
    keep_version,
    remove_stale_drafts,
    save_version,
    staged,
)
from datasets.services.uploads import take_content
from gligabao.databases import write_transaction
from gligabao.errors import GligabaoError, InvalidRequest

READ_ATTEMPTS = 3  # of a file that is written to while we read it


@dataclass(frozen=True)
class Synced:
    """What became of one folder."""

    dataset: Dataset
    is_new: bool = False
    is_changed: bool = False


@dataclass
class SyncResult:
    """File names by what happened to them; problems are sentences."""

    created: list[str] = field(default_factory=list)
    changed: list[str] = field(default_factory=list)
    unchanged: list[str] = field(default_factory=list)
    invalid: list[str] = field(default_factory=list)
    missing: list[str] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def sync_from_directory(db: str) -> SyncResult:
    """Register every folder with a manifest, and the sample; note what is gone or changed.

    One folder with a fault does not keep the others from being read.
    """
    remove_stale_drafts()
    result = SyncResult()
    for folder in [folders.SAMPLE_FOLDER, *_folders_with_manifest(db)]:
        try:
            _note(result, sync_folder(folder, db=db))
        except (GligabaoError, OSError) as error:
            result.problems.append(f"Folder {folder!r}: {error}")
    _mark_missing(result, db)
    return result


def sync_folder(folder: str, *, db: str) -> Synced:
    """Make the row of one folder agree with what lies in it.

    Raises InvalidRequest if no row can stand for it: an unusable name, or a name that another
    folder holds.
    """
    path = folders.folder_path(folder, db=db)
    try:
        manifest = manifests.parse((path / manifests.FILE_NAME).read_bytes())
    except InvalidRequest as error:
        return _sync_invalid(folder, error, db=db)
    known = Dataset.objects.using(db).filter(folder=folder).first()
    if known and _is_current(known, manifest, db=db):
        return _found_again(known, db=db)
    if not (path / manifest.file).is_file():
        return _sync_without_file(folder, manifest, known, db=db)
    return _read(folder, path / manifest.file, manifest, db=db)


def _folders_with_manifest(db: str) -> list[str]:
    root = folders.datasets_dir(db)
    if not root.is_dir():
        return []
    return sorted(
        path.name
        for path in root.iterdir()
        if not path.name.startswith(".") and (path / manifests.FILE_NAME).is_file()
    )


def _is_current(dataset: Dataset, manifest: Manifest, *, db: str) -> bool:
    """Whether the row says all that the folder holds, and the content is among the versions."""
    described = (dataset.file, dataset.name, dataset.description)
    if described != (manifest.file, manifest.name, manifest.description):
        return False
    if folders.live_status(dataset, db=db) == DatasetStatus.INVALID:
        return dataset.report.get("code") != BAD_MANIFEST
    if folders.live_status(dataset, db=db) != DatasetStatus.READY:
        return False
    version = DatasetVersion.objects.using(db).filter(sha256=dataset.sha256).first()
    return version is not None and version.is_intact


def _found_again(dataset: Dataset, *, db: str) -> Synced:
    """A file that was missing in between is back as it was."""
    status = folders.live_status(dataset, db=db)
    if dataset.status != status:
        Dataset.objects.using(db).filter(pk=dataset.pk).update(status=status)
        dataset.status = status
    return Synced(dataset)


def _read(folder: str, path: Path, manifest: Manifest, *, db: str) -> Synced:
    for _ in range(READ_ATTEMPTS):
        before = path.stat()
        with path.open("rb") as file, staged(file) as item:
            after = path.stat()
            if (before.st_size, before.st_mtime_ns) == (after.st_size, after.st_mtime_ns):
                return _save(folder, manifest, item, found=after, db=db)
    raise InvalidRequest("The file is being written to. Sync again later.", code="file_in_use")


def _save(
    folder: str, manifest: Manifest, item: Staged, *, found: os.stat_result, db: str
) -> Synced:
    version = keep_version(item) if item.validation.is_valid else None
    with folders.directory_lock(db), write_transaction(db):
        dataset, is_new = _row_of(folder, manifest.file, db=db)
        is_changed = not is_new and dataset.sha256 != item.validation.sha256
        if version:
            save_version(version, db=db)
        take_content(dataset, item)
        _describe(dataset, manifest)
        # Not what validation read: it gives up early on a file of another kind.
        dataset.size_bytes, dataset.mtime_ns = found.st_size, found.st_mtime_ns
        if is_changed:
            dataset.updated_at = timezone.now()
        dataset.save(using=db)
    return Synced(dataset, is_new=is_new, is_changed=is_changed)


def _sync_without_file(
    folder: str, manifest: Manifest, known: Dataset | None, *, db: str
) -> Synced:
    if known is None:
        raise InvalidRequest(f"There is no file {manifest.file!r}.", code="no_file")
    with write_transaction(db):
        _describe(known, manifest)
        known.status = DatasetStatus.MISSING
        known.save(using=db)
    return Synced(known)


def _sync_invalid(folder: str, error: InvalidRequest, *, db: str) -> Synced:
    """A folder whose manifest cannot be used shows as an invalid dataset under its own name."""
    report = {"error": error.message, "code": BAD_MANIFEST, "errors": [], "error_count": 1}
    with folders.directory_lock(db), write_transaction(db):
        dataset, is_new = _row_of(folder, f"{folder}.jsonl", db=db)
        if is_new:
            dataset.file, dataset.name = dataset.filename, dataset.filename
        is_changed = not is_new and dataset.report != report
        dataset.status = DatasetStatus.INVALID
        dataset.report = report
        dataset.save(using=db)
    return Synced(dataset, is_new=is_new, is_changed=is_changed)


def _row_of(folder: str, filename: str, *, db: str) -> tuple[Dataset, bool]:
    """The row of a folder, locked, or a new one. Raises InvalidRequest if its name is taken."""
    rows = Dataset.objects.using(db).select_for_update()
    dataset = rows.filter(folder=folder).first()
    if dataset is not None and folders.is_upload(dataset):
        return dataset, False  # the name that the client sent is known to the row alone
    if folders.UPLOAD_FOLDER.fullmatch(folder):
        filename = f"{folder}.jsonl"
    check_filename(filename)
    holder = rows.filter(filename=filename).exclude(folder=folder).first()
    if holder is not None:
        raise InvalidRequest(
            f"The name {filename!r} belongs to the folder {holder.folder!r}.", code="name_taken"
        )
    if dataset is None:
        return Dataset(folder=folder, filename=filename), True
    dataset.filename = filename
    return dataset, False


def _describe(dataset: Dataset, manifest: Manifest) -> None:
    dataset.file = manifest.file
    dataset.name = manifest.name
    dataset.description = manifest.description


def _note(result: SyncResult, synced: Synced) -> None:
    filename = synced.dataset.filename
    if synced.dataset.status == DatasetStatus.INVALID:
        result.invalid.append(filename)
    elif synced.dataset.status == DatasetStatus.MISSING:
        result.missing.append(filename)
    elif synced.is_new:
        result.created.append(filename)
    elif synced.is_changed:
        result.changed.append(filename)
    else:
        result.unchanged.append(filename)


def _mark_missing(result: SyncResult, db: str) -> None:
    """Rows whose folder or file is gone."""
    for dataset in Dataset.objects.using(db).order_by("filename"):
        if folders.live_status(dataset, db=db) != DatasetStatus.MISSING:
            continue
        Dataset.objects.using(db).filter(pk=dataset.pk).update(status=DatasetStatus.MISSING)
        if dataset.filename not in result.missing:
            result.missing.append(dataset.filename)
