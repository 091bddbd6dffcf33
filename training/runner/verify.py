"""Verifies the artifacts that a trainer says it stored, byte by byte.

What did not reach storage is copied from where the run left it. Only safetensors, JSON and
text are taken; a pickle is refused whatever its name promises.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.utils import timezone

from gligabao.errors import NotFound
from gligabao.storage import get_storage
from training.catalog import base_model
from training.model_files import (
    INDEX,
    MAX_INDEX_BYTES,
    ModelFilesInvalid,
    Tensors,
    check_paths,
    check_tensors,
)
from training.models import TrainingJob
from training.providers.base import Provider
from training.safetensors_file import InvalidSafetensors, check_header

MAX_FILES = 1000
PATH = re.compile(r"[A-Za-z0-9][A-Za-z0-9._\-]{0,120}(?:/[A-Za-z0-9][A-Za-z0-9._\-]{0,120}){0,3}")
SUFFIXES = (".safetensors", ".json", ".jinja", ".txt", ".md", ".model")
SHA256 = re.compile(r"[0-9a-f]{64}")


class ArtifactsInvalid(Exception):
    """The stored bytes, or the claim itself, are wrong or missing."""


@dataclass(frozen=True)
class Verified:
    files: list[dict[str, Any]]
    size_bytes: int
    storage_bytes: int
    at: datetime


def artifact_prefix(job: TrainingJob) -> str:
    """Where the artifacts of the job's attempt lie in storage."""
    return f"{job.job_id}/{job.attempt}"


def check_files(files: Any) -> list[dict[str, Any]]:
    """Check a list of `{path, size_bytes, sha256}`. Raises ArtifactsInvalid naming the file."""
    if not isinstance(files, list):
        raise ArtifactsInvalid("There is no list of files.")
    if len(files) > MAX_FILES:
        raise ArtifactsInvalid(f"{len(files)} files are more than {MAX_FILES}.")
    seen: set[str] = set()
    for file in files:
        _check_file(file)
        if file["path"] in seen:
            raise ArtifactsInvalid(f"{file['path']} is listed twice.")
        seen.add(file["path"])
    return [{key: file[key] for key in ("path", "size_bytes", "sha256")} for file in files]


def _check_file(file: Any) -> None:
    path = file.get("path") if isinstance(file, Mapping) else None
    if not isinstance(path, str) or not PATH.fullmatch(path):
        raise ArtifactsInvalid(f"{str(path)[:100]!r} is not a usable file path.")
    if not path.endswith(SUFFIXES):
        raise ArtifactsInvalid(f"{path} is refused: only {', '.join(SUFFIXES)} files are kept.")
    size = file.get("size_bytes")
    if isinstance(size, bool) or not isinstance(size, int) or size < 0:
        raise ArtifactsInvalid(f"{path}: size_bytes is not a size.")
    if not isinstance(file.get("sha256"), str) or not SHA256.fullmatch(file["sha256"]):
        raise ArtifactsInvalid(f"{path}: sha256 is not 64 hex digits.")


def verify_claim(job: TrainingJob, claim: Mapping[str, Any], provider: Provider) -> Verified:
    """Read every claimed file from storage and compare size and digest.

    Raises ArtifactsInvalid. Repeating it changes nothing.
    """
    files = check_files(claim.get("files") or [])
    paths = {file["path"] for file in files}
    tensors: dict[str, Tensors] = {}
    storage_bytes = 0
    try:
        check_paths(job.method, paths)
        for file in files:
            _fetch_if_missing(job, file, provider)
            storage_bytes += _verify_stored(job, file)
            if file["path"].endswith(".safetensors"):
                tensors[file["path"]] = _read_header(job, file)
        check_tensors(job.method, tensors, _read_index(job) if INDEX in paths else None)
    except ModelFilesInvalid as error:
        raise ArtifactsInvalid(str(error)) from error
    return Verified(
        files=files,
        size_bytes=sum(file["size_bytes"] for file in files),
        storage_bytes=storage_bytes,
        at=timezone.now(),
    )


def _key(job: TrainingJob, file: Mapping[str, Any]) -> str:
    return f"{artifact_prefix(job)}/{file['path']}"


def _fetch_if_missing(job: TrainingJob, file: Mapping[str, Any], provider: Provider) -> None:
    """Copy a file that could not be uploaded from where the run left it."""
    storage = get_storage()
    if storage.stat(_key(job, file)) is not None:
        return
    try:
        source = provider.read_file(job.provider_job_id, file["path"])
    except NotFound as error:
        raise ArtifactsInvalid(
            f"{file['path']} is not in storage, and the run did not leave it behind."
        ) from error
    with source:
        storage.put(_key(job, file), source)


def _verify_stored(job: TrainingJob, file: Mapping[str, Any]) -> int:
    """The size in storage, after every byte was read. Raises ArtifactsInvalid."""
    storage = get_storage()
    path = file["path"]
    found = storage.stat(_key(job, file))
    if found is None:
        raise ArtifactsInvalid(f"{path} is not in storage.")
    if found.size_bytes != file["size_bytes"]:
        raise ArtifactsInvalid(
            f"{path}: expected {file['size_bytes']} bytes, storage has {found.size_bytes}."
        )
    with storage.open(_key(job, file)) as stored:
        digest = hashlib.file_digest(stored, "sha256").hexdigest()
    if digest != file["sha256"]:
        raise ArtifactsInvalid(
            f"{path}: expected sha256 {file['sha256'][:12]}..., storage has {digest[:12]}..."
        )
    return found.size_bytes


def _read_header(job: TrainingJob, file: Mapping[str, Any]) -> Tensors:
    with get_storage().open(_key(job, file)) as stored:
        try:
            return check_header(stored, size_bytes=file["size_bytes"])
        except InvalidSafetensors as error:
            raise ArtifactsInvalid(f"{file['path']} is no safetensors file: {error}") from error


def _read_index(job: TrainingJob) -> bytes:
    with get_storage().open(_key(job, {"path": INDEX})) as stored:
        content = stored.read(MAX_INDEX_BYTES + 1)
    if len(content) > MAX_INDEX_BYTES:
        raise ArtifactsInvalid(f"{INDEX} is longer than {MAX_INDEX_BYTES} bytes.")
    return content


def model_fields(job: TrainingJob, claim: Mapping[str, Any], verified: Verified) -> dict[str, Any]:
    """The fields of the model row that a verified claim makes."""
    entry = base_model(job.base_model)
    num_examples = claim.get("num_examples")
    return {
        "name": job.name
        or f"{job.model_size}-{job.dataset}-{job.num_train_steps}steps-{job.job_id[:8]}"[:200],
        "run": job,
        "job_id": job.job_id,
        "base_model": entry.repository,
        "base_model_id": entry.id,
        "base_model_revision": entry.revision,
        "model_source": job.model_source,
        "model_size": job.model_size,
        "method": job.method,
        "dataset": job.dataset,
        "dataset_sha256": job.dataset_sha256,
        "num_examples": num_examples if _is_count(num_examples) else None,
        "num_train_steps": job.num_train_steps,
        "final_loss": claim.get("final_loss"),
        "params": job.hyperparams,
        "path": artifact_prefix(job),
        "files": verified.files,
        "size_bytes": verified.size_bytes,
        "storage_bytes": verified.storage_bytes,
        "verified_at": verified.at,
    }


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31
