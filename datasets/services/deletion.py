"""Deleting a dataset. Its versions stay: jobs that trained on them may be run again."""

from __future__ import annotations

import shutil
from collections.abc import Callable

from datasets.models import Dataset
from datasets.services import folders
from gligabao.databases import write_transaction
from gligabao.errors import Conflict, NotFound

UseCheck = Callable[[str, str], bool]  # (filename, db): does something unfinished use it?

_use_checks: list[UseCheck] = []


def register_use_check(check: UseCheck) -> None:
    """Called by apps that use datasets, once at the start; this app does not know them."""
    if check not in _use_checks:
        _use_checks.append(check)


def delete(filename: str, *, db: str) -> None:
    """Remove an uploaded dataset and its folder.

    Raises NotFound, and Conflict while it is in use or where the folder is not ours to remove.
    """
    with folders.directory_lock(db), write_transaction(db):
        dataset = Dataset.objects.using(db).select_for_update().filter(filename=filename).first()
        if dataset is None:
            raise NotFound(f"No dataset {filename!r}.", code="unknown_dataset")
        if any(is_used(filename, db) for is_used in _use_checks):
            raise Conflict(
                f"An unfinished job uses {filename!r}. Stop it or wait for its end.",
                code="dataset_in_use",
            )
        folder = folders.folder_path(dataset.folder, db=db)
        is_ours = folders.is_upload(dataset)
        if not is_ours and folder.exists():
            raise Conflict(_not_ours(dataset), code="not_an_upload")
        dataset.delete(using=db)
        if is_ours:
            shutil.rmtree(folder, ignore_errors=True)


def _not_ours(dataset: Dataset) -> str:
    if dataset.folder == folders.SAMPLE_FOLDER:
        return f"{dataset.filename!r} comes with gligabao and cannot be deleted."
    return (
        f"{dataset.filename!r} was not uploaded. Remove the folder {dataset.folder!r} from the "
        "datasets directory, then delete it here."
    )
