"""A look into a dataset: its rows as the trainer sees them, cut to what a page can show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from datasets.formats import detect, normalise, strict_json
from datasets.formats.report import RowError
from datasets.formats.rows import check
from datasets.models import Dataset, DatasetStatus, DatasetVersion
from datasets.services import folders
from gligabao.errors import DatasetDamaged, NotFound

SHOWN_BYTES = 2048  # of one text field; its true length is told
SHOWN_MESSAGES = 50  # of one row
MAX_ROWS = 100  # of one answer
BOM = b"\xef\xbb\xbf"


def get_dataset(filename: str, *, db: str) -> Dataset:
    """Raises NotFound."""
    dataset = Dataset.objects.using(db).filter(filename=filename).first()
    if dataset is None:
        raise NotFound(f"No dataset {filename[:200]!r}.", code="unknown_dataset")
    return dataset


def rows(
    dataset: Dataset,
    *,
    offset: int,
    limit: int,
    problems: bool = False,
    line: int | None = None,
    with_source: bool = False,
    db: str,
) -> dict[str, Any]:
    """Rows from the `offset`-th on, at most `limit` and MAX_ROWS, and the next offset.

    With `problems` only those that the report names: its listed errors, and the first lines of
    each warning. With `line` they begin at that line of the file, whatever the offset is;
    `with_source` brings each line as it stands there. Raises DatasetDamaged if the file is gone.
    """
    limit = min(limit, MAX_ROWS)
    named = _problems_by_line(dataset.report)
    shown: list[dict[str, Any]] = []
    position = 0
    for number, text in _lines(stored_path(dataset, db=db), dataset.report):
        if problems and number not in named:
            if named and number > max(named):
                break
            continue
        if line is not None:
            offset = position if number >= line else position + 1
            line = None if number >= line else line
        if position >= offset + limit:
            return {"rows": shown, "next": position}
        if position >= offset:
            row = {"line": number, "index": position, "problems": named.get(number, [])}
            if with_source:
                row["source"] = _cut(text.decode("utf-8", errors="replace"))
            shown.append(row | _shown_row(text))
        position += 1
    return {"rows": shown, "next": None}


def stored_path(dataset: Dataset, *, db: str) -> Path:
    """The kept version, which is what jobs train on; the folder's file if it is not valid.

    Raises DatasetDamaged if it is gone.
    """
    if folders.live_status(dataset, db=db) != DatasetStatus.INVALID:
        version = DatasetVersion.objects.using(db).filter(sha256=dataset.sha256).first()
        if version and version.is_intact:
            return version.path
    path = folders.data_path(dataset, db=db)
    if not path.is_file():
        raise DatasetDamaged(f"The file of dataset {dataset.filename!r} is missing.")
    return path


def _problems_by_line(report: dict[str, Any]) -> dict[int, list[dict[str, str]]]:
    found: dict[int, list[dict[str, str]]] = {}
    for error in report.get("errors", ()):
        if error["line"]:
            found.setdefault(error["line"], []).append(_problem("error", error))
    for warning in report.get("warnings", ()):
        if warning["code"] not in ("bom", "blank_lines"):
            for line in warning["lines"]:
                found.setdefault(line, []).append(_problem("warning", warning))
    return found


def _problem(level: str, entry: dict[str, Any]) -> dict[str, str]:
    return {"level": level, "code": entry["code"], "message": entry["message"]}


def _lines(path: Path, report: dict[str, Any]) -> Iterator[tuple[int, bytes]]:
    """Number and text of the lines that are not blank; over-long ones come in cut form."""
    too_long = {
        error["line"] for error in report.get("errors", ()) if error["code"] == "line_too_long"
    }
    with path.open("rb") as file:
        if file.read(len(BOM)) != BOM:
            file.seek(0)
        number = 0
        while text := file.readline(SHOWN_BYTES if number + 1 in too_long else -1):
            number += 1
            if number in too_long:
                _skip_line(file, text)
            if text.strip():
                yield number, text


def _skip_line(file: Any, text: bytes) -> None:
    while text and not text.endswith(b"\n"):
        text = file.readline(2**20)


def _shown_row(text: bytes) -> dict[str, Any]:
    try:
        return _shown_normal(strict_json.parse(text.rstrip(b"\r\n")))
    except RowError:
        # A row that does not validate has no normal form; show what the file holds.
        return {"raw": _cut(text.decode("utf-8", errors="replace"))}


def _shown_normal(row: Any) -> dict[str, Any]:
    if not isinstance(row, dict):
        raise RowError("not_an_object", "The line is not a JSON object.")
    format = detect(row)
    check(row, format)
    normal = normalise(row, format)
    if "text" in normal:
        return {"text": _cut(normal["text"])}
    messages = normal["messages"]
    return {
        "messages": [_shown_message(message) for message in messages[:SHOWN_MESSAGES]],
        "num_messages": len(messages),
        "tools": _cut_value(normal["tools"]),
    }


def _shown_message(message: dict[str, Any]) -> dict[str, Any]:
    return {key: value if key == "role" else _cut_value(value) for key, value in message.items()}


def _cut_value(value: Any) -> Any:
    """A text as `_cut` shows it; a small JSON value as it is, a large one as cut text."""
    if isinstance(value, str):
        return _cut(value)
    text = json.dumps(value, ensure_ascii=False)
    # Back by orjson: whole numbers over 64 bits become floats, as every other reader has them.
    return orjson.loads(text) if len(text) <= SHOWN_BYTES else _cut(text)


def _cut(text: str) -> dict[str, Any]:
    """The beginning of a text and its true length in characters."""
    start = text[:SHOWN_BYTES].encode("utf-8")[:SHOWN_BYTES].decode("utf-8", errors="ignore")
    return {"text": start, "length": len(text), "is_cut": len(start) < len(text)}
