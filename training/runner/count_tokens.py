"""Counts the tokens of datasets that somebody asked for."""

from __future__ import annotations

import logging
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

from django.conf import settings
from django.utils import timezone

from datasets.formats import detect, normalise, strict_json
from datasets.services import open_version
from gligabao.databases import write_transaction
from gligabao.errors import GligabaoError
from training.catalog import BaseModel, base_model
from training.chat_tokens import BadModelFiles, ChatTokens
from training.models import TokenStatistics
from training.models.token_statistics import TokenStatus, to_count
from training.providers.local_environment import trainer_environment

logger = logging.getLogger(__name__)

FETCH_SECONDS = 1200
CHUNK_ROWS = 256
BOM = b"\xef\xbb\xbf"
NOT_FETCHED = (
    "The tokenizer of {name} could not be fetched, so its tokens cannot be counted yet. Check "
    "that the model is available and that you have access to it."
)


def count_due(db: str) -> None:
    """Count what is asked for, one after the other; another worker takes none of them twice."""
    while (row := _claim(db)) is not None:
        try:
            changes = _counted(row, db)
        except (GligabaoError, BadModelFiles) as error:
            changes = {"status": TokenStatus.FAILED, "error": str(error)[:2000]}
        except Exception:
            logger.exception("Tokens of %s could not be counted.", row)
            changes = {
                "status": TokenStatus.FAILED,
                "error": "Counting failed here; the reason is in the worker's log.",
            }
        _save(row, changes, db)


def is_anything_due(db: str) -> bool:
    return TokenStatistics.objects.using(db).filter(to_count(timezone.now())).exists()


def _claim(db: str) -> TokenStatistics | None:
    now = timezone.now()
    rows = TokenStatistics.objects.using(db)
    with write_transaction(db):
        row = rows.select_for_update().filter(to_count(now)).order_by("asked_at").first()
        if row is not None:
            row.status, row.claimed_at = TokenStatus.COUNTING, now
            row.save(using=db, update_fields=["status", "claimed_at"])
        return row


def _save(row: TokenStatistics, changes: dict[str, Any], db: str) -> None:
    """Only for whoever still holds the claim."""
    with write_transaction(db):
        mine = TokenStatistics.objects.using(db).filter(pk=row.pk, claimed_at=row.claimed_at)
        mine.update(**changes)


def _counted(row: TokenStatistics, db: str) -> dict[str, Any]:
    version = open_version(row.dataset_sha256, db=db)
    tokens = ChatTokens(_model_folder(base_model(row.base_model)))
    lengths: Counter[int] = Counter()
    firsts: Counter[int] = Counter()
    num_rows = num_trained = num_refused = 0
    refused: tuple[int, str] | None = None
    lines = _rows(version.path)
    while chunk := list(islice(lines, CHUNK_ROWS)):
        counts = tokens.rows_tokens([value for _, value in chunk])
        for (line, _), found in zip(chunk, counts, strict=True):
            num_rows += 1
            if found.refused:
                num_refused += 1
                refused = refused or (line, found.refused)
            for example in found.examples:
                lengths[example.num_tokens] += 1
                is_trained = example.num_trained and example.first_trained is not None
                firsts[example.first_trained if is_trained else -1] += 1
                num_trained += example.num_trained
    return {
        "status": TokenStatus.READY,
        "error": "",
        "num_rows": num_rows,
        "num_refused": num_refused,
        "refused_line": refused[0] if refused else None,
        "refused_why": refused[1][:2000] if refused else "",
        "num_trained": num_trained,
        "lengths": {str(length): count for length, count in sorted(lengths.items())},
        "firsts": {str(first): count for first, count in sorted(firsts.items())},
    }


def _rows(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and row as the trainer sees it. The file is a kept version, so it is valid."""
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        for number, line in enumerate(file, start=1):
            if line.strip():
                row = strict_json.parse(line.rstrip(b"\r\n"))
                yield number, normalise(row, detect(row))


def _model_folder(entry: BaseModel) -> Path:
    """Where the tokenizer lies; the trainer fetches the model if it is not here yet."""
    folder = settings.MODELS_DIR / entry.id / entry.revision
    if folder.is_dir():
        return folder
    command = [sys.executable, "-P", "-m", "trainer.base_models", "fetch", entry.id]
    if "huggingface" in entry.sources:
        command += ["--repository", entry.repository, "--revision", entry.revision]
    try:
        done = subprocess.run(
            command,
            cwd=settings.DATA_DIR,
            env=trainer_environment(settings.MODELS_DIR),
            capture_output=True,
            timeout=FETCH_SECONDS,
        )
    except subprocess.TimeoutExpired as error:
        raise BadModelFiles(NOT_FETCHED.format(name=entry.name)) from error
    if done.returncode or not folder.is_dir():
        logger.warning("%s was not fetched: %s", entry.id, done.stderr.decode()[-2000:])
        raise BadModelFiles(NOT_FETCHED.format(name=entry.name))
    return folder
