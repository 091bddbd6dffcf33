"""Datasets for jobs: the content that a name stands for now, or one that a job kept."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from datasets.formats import check_filename
from datasets.models import Dataset, DatasetStatus, DatasetVersion
from datasets.services import folders
from datasets.services.sync import sync_folder
from gligabao.errors import DatasetDamaged, InvalidRequest

DAMAGE = {
    DatasetStatus.MISSING: "is missing",
    DatasetStatus.CHANGED: "does not match its record",
}


@dataclass(frozen=True)
class OpenedDataset:
    """One content, found intact: what a job pins by its digest."""

    filename: str
    sha256: str
    path: Path
    size_bytes: int
    num_records: int
    format: str
    role_order_line: int | None


def open_for_job(filename: str, *, db: str, sha256: str | None = None) -> OpenedDataset:
    """The content of a dataset now, or with `sha256` that earlier content of it.

    Only facts of the file system are compared, so this is fast at any size.

    Raises InvalidRequest (bad or unknown name, content that does not validate) and
    DatasetDamaged (the file is gone, or was changed behind our back).
    """
    check_filename(filename)
    if sha256 is None:
        sha256 = _current_digest(filename, db=db)
    version = open_version(sha256, db=db)
    return OpenedDataset(
        filename=filename,
        sha256=version.sha256,
        path=version.path,
        size_bytes=version.size_bytes,
        num_records=version.num_records,
        format=version.format,
        role_order_line=version.role_order_line,
    )


def open_version(sha256: str, *, db: str) -> DatasetVersion:
    """A stored content by its digest. Raises DatasetDamaged."""
    version = DatasetVersion.objects.using(db).filter(sha256=sha256).first()
    if version is None or not version.is_intact:
        state = "is missing" if version is None or not version.path.exists() else "was changed"
        raise DatasetDamaged(
            f"The stored content {sha256[:12]} of the dataset {state}: it does not match its "
            "record. Upload it again."
        )
    return version


def default_dataset(db: str) -> str:
    """The file name of the sample that comes with gligabao; it is registered if need be."""
    named = Dataset.objects.using(db).filter(filename=folders.SAMPLE_FILE).first()
    is_uploaded = named is not None and named.folder != folders.SAMPLE_FOLDER
    if named is None or (
        not is_uploaded and folders.live_status(named, db=db) != DatasetStatus.READY
    ):
        sync_folder(folders.SAMPLE_FOLDER, db=db)
    return folders.SAMPLE_FILE


def _current_digest(filename: str, *, db: str) -> str:
    dataset = Dataset.objects.using(db).filter(filename=filename).first()
    if dataset is None:
        raise InvalidRequest(f"No dataset {filename!r}. Upload it first.", code="unknown_dataset")
    status = folders.live_status(dataset, db=db)
    if status in DAMAGE:
        raise DatasetDamaged(
            f"The file of dataset {filename!r} {DAMAGE[status]}. Upload it again, or run "
            "manage.py sync_datasets if the change is meant."
        )
    if status == DatasetStatus.INVALID:
        raise InvalidRequest(
            f"Dataset {filename!r} is not valid: {dataset.report.get('error')}",
            code="dataset_invalid",
            errors=dataset.report.get("errors", ()),
        )
    return dataset.sha256
