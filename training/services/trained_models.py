"""What a person can ask of trained models: read, rename, delete, and run a prompt through."""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings

from gligabao.databases import write_transaction
from gligabao.errors import NotFound, StorageError
from gligabao.storage import get_storage
from training.models import TrainedModel
from training.providers import get_provider
from training.providers.base import InferEvent, InferRequest

COPY_BYTES = 1 << 20


def get_model(model_id: int, *, db: str) -> TrainedModel:
    """Raises NotFound."""
    try:
        return TrainedModel.objects.using(db).get(pk=model_id)
    except (TrainedModel.DoesNotExist, OverflowError) as error:
        raise NotFound(f"No trained model {model_id}.", code="unknown_model") from error


def update_model(model_id: int, changes: Mapping[str, Any], *, db: str) -> TrainedModel:
    """Change `name` or `note`. Raises NotFound."""
    model = get_model(model_id, db=db)
    for name, value in changes.items():
        setattr(model, name, value)
    if changes:
        with write_transaction(db):
            model.save(using=db, update_fields=list(changes))
    return model


def delete_model(model_id: int, *, db: str) -> None:
    """Delete a model and its files. The row goes first: a model without files is never shown."""
    model = get_model(model_id, db=db)
    with write_transaction(db):
        model.delete(using=db)
    get_storage().delete_prefix(model.path)
    shutil.rmtree(_adapter_dir(model), ignore_errors=True)


def file_address(model: TrainedModel, path: str) -> str:
    """A short-lived address of one of the model's files. Raises NotFound."""
    if path not in {file["path"] for file in model.files}:
        raise NotFound(f"Model {model.pk} has no file {path[:200]!r}.", code="unknown_file")
    return get_storage().presigned_get(
        f"{model.path}/{path}",
        filename=path.rpartition("/")[2],
        expires_seconds=settings.UPLOAD_URL_SECONDS,
    )


def infer(
    model: TrainedModel,
    *,
    messages: Sequence[Mapping[str, Any]],
    max_tokens: int,
    temperature: float,
    base: bool,
) -> AsyncIterator[InferEvent]:
    """Generate with the model, or with its base model. Blocks while the files are verified.

    Raises StorageError if stored bytes are not what the row says; the provider's errors come
    out of the iterator.
    """
    request = InferRequest(
        model_id=model.base_model_id,
        revision=model.base_model_revision,
        model_source=model.model_source,
        adapter_dir=None if base else str(verified_files(model)),
        messages=messages,
        max_tokens=max_tokens,
        temperature=temperature,
    )
    return get_provider("local").infer(request)


def verified_files(model: TrainedModel) -> Path:
    """A folder with the model's files, each checked against size and digest of its row.

    The folder appears complete or not at all, so a second caller finds it ready. Raises
    StorageError naming the file.
    """
    target = _adapter_dir(model)
    if target.is_dir():
        return target
    target.parent.mkdir(parents=True, exist_ok=True)
    draft = Path(tempfile.mkdtemp(prefix=".draft-", dir=target.parent))
    try:
        for file in model.files:
            _copy_verified(model, file, draft / file["path"])
        os.replace(draft, target)
    except OSError:
        if not target.is_dir():  # else another process was first
            raise
    finally:
        shutil.rmtree(draft, ignore_errors=True)
    return target


def _adapter_dir(model: TrainedModel) -> Path:
    return settings.INFER_DIR / "models" / model.job_id


def _copy_verified(model: TrainedModel, file: Mapping[str, Any], target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with get_storage().open(f"{model.path}/{file['path']}") as source, target.open("wb") as copy:
        size, digest = _copy(source, copy)
    if size != file["size_bytes"]:
        raise StorageError(
            f"{file['path']}: expected {file['size_bytes']} bytes, storage has {size}. "
            "The stored model is damaged; train it again.",
            code="model_damaged",
        )
    if digest != file["sha256"]:
        raise StorageError(
            f"{file['path']}: expected sha256 {file['sha256'][:12]}..., storage has "
            f"{digest[:12]}... The stored model is damaged; train it again.",
            code="model_damaged",
        )


def _copy(source: BinaryIO, target: BinaryIO) -> tuple[int, str]:
    """Copy all; returns size in bytes and hex SHA-256."""
    digest, size = hashlib.sha256(), 0
    while block := source.read(COPY_BYTES):
        target.write(block)
        digest.update(block)
        size += len(block)
    return size, digest.hexdigest()
