"""The token statistics of a dataset for a base model: counted by a worker when first asked for."""

from __future__ import annotations

from django.utils import timezone

from datasets.services import open_for_job
from gligabao.databases import write_transaction
from gligabao.errors import InvalidRequest
from training import tasks
from training.catalog import base_model
from training.models import TokenStatistics
from training.models.token_statistics import ASK_AGAIN, TokenStatus

MAX_LENGTH = 10_000_000


def token_statistics(filename: str, base_model_id: str, *, db: str) -> TokenStatistics:
    """The row as it is now. What is missing, or failed a while ago, is asked for.

    Safe to call often and from many places. Raises InvalidRequest (unknown dataset or base
    model) and DatasetDamaged.
    """
    entry = base_model(base_model_id)
    sha256 = open_for_job(filename, db=db).sha256
    key = {"dataset_sha256": sha256, "base_model": entry.id, "revision": entry.revision}
    rows = TokenStatistics.objects.using(db)
    row = rows.filter(**key).first()
    if row is not None and not _is_worth_another_try(row):
        return row
    with write_transaction(db):
        row, _ = rows.get_or_create(**key)
        if _is_worth_another_try(row):
            row.status, row.error, row.asked_at = TokenStatus.WAITING, "", timezone.now()
            row.save(using=db, update_fields=["status", "error", "asked_at"])
        tasks.send_on_commit(tasks.count_due, db=db)
    return row


def checked_max_length(value: int | None, base_model_id: str) -> int:
    """The length that counts: the one asked for, else the model's own. Raises InvalidRequest."""
    if value is None:
        entry = base_model(base_model_id)
        return int(entry.hyperparams["max_length"])
    if not 1 <= value <= MAX_LENGTH:
        raise InvalidRequest(
            f"max_length={value} is out of range. Must be from 1 to {MAX_LENGTH}.",
            code="invalid_query",
        )
    return value


def _is_worth_another_try(row: TokenStatistics) -> bool:
    return row.status == TokenStatus.FAILED and timezone.now() - row.asked_at > ASK_AGAIN
