"""What a trainer may ask for: to have its reports stored, and addresses to upload to."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.conf import settings

from gligabao.errors import Conflict, InvalidRequest, TooLarge
from gligabao.storage import get_storage
from training.contract import MAX_BATCH, Report, parse_report
from training.events import append_events
from training.models import TrainingJob
from training.runner.verify import ArtifactsInvalid, artifact_prefix, check_files


@dataclass(frozen=True)
class Received:
    """The answer to a batch. `stop`: the trainer is to end at its next step."""

    accepted: int
    duplicates: int
    rejected: list[dict[str, Any]]
    stop: bool


def receive_reports(job: TrainingJob, body: Any, *, db: str) -> Received:
    """Store one report or a list of them. Good ones of a list are kept, bad ones named.

    Raises InvalidRequest for a single bad report, TooLarge for over 500.
    """
    if not isinstance(body, list):
        return _store(job, [parse_report(body)], [], db)
    if len(body) > MAX_BATCH:
        raise TooLarge(
            f"{len(body)} reports are more than {MAX_BATCH}. Send smaller batches.",
            code="batch_too_large",
        )
    reports, rejected = [], []
    for index, raw in enumerate(body):
        try:
            reports.append(parse_report(raw))
        except InvalidRequest as error:
            rejected.append({"index": index, "error": error.message})
    return _store(job, reports, rejected, db)


def _store(
    job: TrainingJob, reports: list[Report], rejected: list[dict[str, Any]], db: str
) -> Received:
    appended = append_events(job.pk, reports, db=db)
    job.refresh_from_db(using=db, fields=["status", "outcome", "stop_requested_at"])
    return Received(
        accepted=appended.accepted,
        duplicates=appended.duplicates,
        rejected=rejected,
        stop=bool(job.outcome or job.stop_requested_at or job.is_final),
    )


def upload_addresses(job: TrainingJob, files: Any) -> list[Mapping[str, Any]]:
    """Signed addresses for the files of a job's attempt, good for 15 minutes.

    Asking again gives fresh addresses for the same keys. Raises InvalidRequest naming the file,
    Conflict once the outcome is fixed.
    """
    if job.outcome or job.is_final:
        raise Conflict(
            f"The outcome of job {job.pk} is fixed; nothing more is uploaded.",
            code="outcome_is_fixed",
        )
    try:
        checked = check_files(files)
    except ArtifactsInvalid as error:
        raise InvalidRequest(str(error), code="bad_file") from error
    return [_address(job, file) for file in checked]


def _address(job: TrainingJob, file: Mapping[str, Any]) -> Mapping[str, Any]:
    address = get_storage().presigned_put(
        f"{artifact_prefix(job)}/{file['path']}",
        size_bytes=file["size_bytes"],
        sha256=file["sha256"],
        expires_seconds=settings.UPLOAD_URL_SECONDS,
    )
    return {
        "path": file["path"],
        "method": address.method,
        "url": address.url,
        "headers": dict(address.headers),
    }
