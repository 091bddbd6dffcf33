"""The dataset file: checked against its digest, normalised, tokenised, and counted."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .errors import JobFailed
from .rendering import IGNORED, Encoded, TemplateProblem, encode_chat, encode_text
from .rows import BadRow, Row, detect_format, normalise_row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UTF8_BOM = b"\xef\xbb\xbf"
MAX_SAMPLE_CHARACTERS = 200


@dataclass(frozen=True)
class Examples:
    """The tokenised dataset and what was counted on the way."""

    encoded: list[Encoded]
    num_records: int
    sample: str  # one decoded span that carries loss
    max_length: int
    held_out: list[Encoded] = field(default_factory=list)  # for evaluation, never trained on

    @property
    def num_dropped(self) -> int:
        return self.num_records - len(self.encoded) - len(self.held_out)

    @property
    def dropped_message(self) -> str:
        """What the owner of the dataset should know, or an empty text."""
        if not self.num_dropped:
            return ""
        return (
            f"{self.num_dropped} of {self.num_records} examples dropped: "
            f"longer than {self.max_length} tokens"
        )

    def report(self) -> dict[str, Any]:
        """The fields of the `dataset` report."""
        fields = {
            "num_records": self.num_records,
            "num_examples": len(self.encoded),
            "num_dropped": self.num_dropped,
            "num_truncated": 0,  # a cut example would lose its answer: such rows are dropped
            "num_tokens": sum(len(example.input_ids) for example in self.encoded),
            "num_trained_tokens": sum(
                label != IGNORED for example in self.encoded for label in example.labels
            ),
            "sample": self.sample,
        }
        if self.num_dropped:
            fields["message"] = self.dropped_message
        return fields


def load_examples(
    path: Path,
    tokenizer: PreTrainedTokenizerBase,
    *,
    sha256: str,
    row_format: str,
    max_length: int,
    check: Callable[[], None],
) -> Examples:
    """All examples of a file that fit into `max_length` tokens.

    `check` is called between rows and may raise to stop. Raises JobFailed with reason
    `dataset_invalid` if the file is not the promised one, a row is bad, or nothing is left.
    """
    encoded: list[Encoded] = []
    num_records = 0
    for line_number, row in _read_rows(path, sha256, row_format):
        check()
        num_records += 1
        example = _encode(tokenizer, row, line_number)
        if all(label == IGNORED for label in example.labels):
            raise JobFailed("dataset_invalid", f"Line {line_number} of the dataset is empty.")
        if len(example.input_ids) <= max_length:
            encoded.append(example)
    sample = _trained_text(tokenizer, encoded[0]) if encoded else ""
    examples = Examples(encoded, num_records, sample, max_length)
    if not num_records:
        raise JobFailed("dataset_invalid", "The dataset has no rows.")
    if not encoded:
        raise JobFailed(
            "dataset_invalid",
            f"All {num_records} examples are longer than {max_length} tokens: "
            "shorten them or raise max_length.",
        )
    return examples


def _read_rows(path: Path, sha256: str, row_format: str) -> Iterator[tuple[int, Row]]:
    """Line number and row, after the whole file has shown the promised digest."""
    try:
        file = path.open("rb")
    except OSError as error:
        raise JobFailed(
            "dataset_invalid", f"The dataset file cannot be read: {error.strerror}."
        ) from error
    with file:
        _check_digest(file, sha256)
        for line_number, line in enumerate(file, start=1):
            if line_number == 1:
                line = line.removeprefix(UTF8_BOM)
            if not line.strip():
                continue
            try:
                content = json.loads(line)
                row = normalise_row(content, row_format or detect_format(content))
            except (BadRow, ValueError, RecursionError) as error:
                raise JobFailed(
                    "dataset_invalid", f"Line {line_number} of the dataset: {error}."
                ) from error
            yield line_number, row


def _check_digest(file: IO[bytes], sha256: str) -> None:
    # The same open file is read again afterwards, so it cannot be exchanged in between.
    found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != sha256:
        raise JobFailed(
            "dataset_invalid",
            f"The dataset file has another digest than the job: {found[:12]}, "
            f"not {sha256[:12]}. It was changed or damaged.",
        )
    file.seek(0)


def _encode(tokenizer: PreTrainedTokenizerBase, row: Row, line_number: int) -> Encoded:
    if row.text is not None:
        return encode_text(tokenizer, row.text)
    try:
        return encode_chat(tokenizer, row.messages or [], tools=row.tools)
    except TemplateProblem as error:
        raise JobFailed(
            "dataset_invalid", f"Line {line_number} of the dataset: {error}."
        ) from error


def _trained_text(tokenizer: PreTrainedTokenizerBase, example: Encoded) -> str:
    """The first span that carries loss, decoded with its special tokens."""
    span: list[int] = []
    for label in example.labels:
        if label != IGNORED:
            span.append(label)
        elif span:
            break
    return tokenizer.decode(span)[:MAX_SAMPLE_CHARACTERS]
