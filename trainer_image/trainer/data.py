"""The dataset file: checked against its digest, normalised, tokenised, and counted."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from .errors import JobFailed
from .held_out import hold_out
from .rendering import IGNORED, ChatEncoder, Encoded, EncodedRow, TemplateProblem
from .rows import BadRow, Row, detect_format, normalise_row

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

UTF8_BOM = b"\xef\xbb\xbf"
MAX_SAMPLE_CHARACTERS = 200


@dataclass(frozen=True)
class Examples:
    """The tokenised dataset and what was counted on the way.

    A row is one example, or one for each answer where the template asks for that.
    """

    encoded: list[Encoded]
    num_records: int
    sample: str  # one decoded span that carries loss
    max_length: int
    held_out: list[Encoded] = field(default_factory=list)  # for evaluation, never trained on
    num_dropped: int = 0  # examples longer than max_length
    num_without_label: int = 0  # examples with nothing to learn from
    num_control_tokens: int = 0  # rows with control tokens in their texts
    num_thoughts_left_out: int = 0  # rows whose thoughts the template does not render
    lengths: Sequence[int] = ()  # tokens of every example, the dropped ones too

    @property
    def dropped_message(self) -> str:
        """What the owner of the dataset should know, or an empty text."""
        if not self.num_dropped:
            return ""
        return (
            f"{self.num_dropped} of {len(self.lengths)} examples dropped: "
            f"longer than {self.max_length} tokens"
        )

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """Code and message of each warning that the owner of the job should get."""
        found = []
        if self.num_dropped:
            found.append(("examples_dropped", self.dropped_message))
        if self.num_without_label:
            message = f"{self.num_without_label} of {len(self.lengths)} examples left out: "
            found.append(("examples_without_label", message + "they hold no answer to learn"))
        if self.num_thoughts_left_out:
            message = f"the thoughts of {self.num_thoughts_left_out} rows are not trained on: "
            found.append(("thoughts_left_out", message + "the chat template leaves them out"))
        return found

    @property
    def longest(self) -> int:
        """Tokens of the longest example that is trained on."""
        return max((len(example.input_ids) for example in self.encoded), default=0)

    def report(self) -> dict[str, Any]:
        """The fields of the `dataset` report."""
        fields = {
            "num_records": self.num_records,
            "num_examples": len(self.encoded),
            "num_held_out": len(self.held_out),
            "num_dropped": self.num_dropped,
            "num_truncated": 0,  # a cut example would lose its answer: such rows are dropped
            "num_without_label": self.num_without_label,
            "num_control_tokens": self.num_control_tokens,
            "num_tokens": sum(len(example.input_ids) for example in self.encoded),
            "num_trained_tokens": sum(example.num_labels for example in self.encoded),
            "length_p50": _percentile(self.lengths, 50),
            "length_p95": _percentile(self.lengths, 95),
            "length_max": _percentile(self.lengths, 100),
            "longest": self.longest,
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
    eval_fraction: float = 0.0,
    seed: int = 0,
) -> Examples:
    """All examples of a file that fit into `max_length` tokens.

    With an `eval_fraction` about that share of them is held out. `check` is called between rows
    and may raise to stop. Raises JobFailed with reason `dataset_invalid` if the file is not the
    promised one, a row is bad, or nothing is left.
    """
    encoder = ChatEncoder(tokenizer)
    counts: Counter[str] = Counter()
    rows: list[list[Encoded]] = []
    lengths: list[int] = []
    for line_number, row in _read_rows(path, sha256, row_format):
        check()
        encoded = _encode(encoder, row, line_number)
        counts["records"] += 1
        counts["control_tokens"] += encoded.has_control_tokens
        counts["thoughts_left_out"] += encoded.leaves_thoughts_out
        lengths += [len(example.input_ids) for example in encoded.examples]
        labelled = [example for example in encoded.examples if example.num_labels]
        kept = [example for example in labelled if len(example.input_ids) <= max_length]
        counts["without_label"] += len(encoded.examples) - len(labelled)
        counts["dropped"] += len(labelled) - len(kept)
        if kept:
            rows.append(kept)
    if not rows:
        raise JobFailed("dataset_invalid", _why_nothing_is_left(counts, max_length))
    if eval_fraction:
        trained, held_out = hold_out(rows, fraction=eval_fraction, seed=seed)
    else:
        trained, held_out = [example for row in rows for example in row], []
    return Examples(
        encoded=trained,
        num_records=counts["records"],
        sample=_trained_text(tokenizer, trained[0]),
        max_length=max_length,
        held_out=held_out,
        num_dropped=counts["dropped"],
        num_without_label=counts["without_label"],
        num_control_tokens=counts["control_tokens"],
        num_thoughts_left_out=counts["thoughts_left_out"],
        lengths=lengths,
    )


def _why_nothing_is_left(counts: Counter[str], max_length: int) -> str:
    if not counts["records"]:
        return "The dataset has no rows."
    if not counts["dropped"]:
        return "No row of the dataset holds an answer to learn."
    return (
        f"All {counts['dropped']} examples are longer than {max_length} tokens: "
        "shorten them or raise max_length."
    )


def _read_rows(path: Path, sha256: str, row_format: str) -> Iterator[tuple[int, Row]]:
    """Line number and row, after the whole file has shown the promised digest.

    Without a `row_format` the first row decides for all.
    """
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
                content = _parse(line)
                row_format = row_format or detect_format(content)
                row = normalise_row(content, row_format)
            except BadRow as error:
                raise _bad_line(line_number, error) from error
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


def _parse(line: bytes) -> Any:
    try:
        content = json.loads(line.decode("utf-8"))  # from bytes it would accept UTF-16 as well
        if b"\\u" in line:  # half a character can only be written so, and no tokenizer takes it
            json.dumps(content, ensure_ascii=False).encode("utf-8")
    except UnicodeError as error:
        raise BadRow(f"the text is not valid UTF-8 ({error.reason})") from error
    except ValueError as error:
        raise BadRow(f"the line is not JSON ({error})") from error
    except RecursionError as error:
        raise BadRow("the line is nested too deeply") from error
    return content


def _bad_line(line_number: int, problem: Exception) -> JobFailed:
    return JobFailed("dataset_invalid", f"Line {line_number} of the dataset: {problem}.")


def _encode(encoder: ChatEncoder, row: Row, line_number: int) -> EncodedRow:
    if row.text is not None:
        return encoder.encode_text(row.text)
    try:
        return encoder.encode_row(row.messages or [], tools=row.tools)
    except TemplateProblem as error:
        raise _bad_line(line_number, error) from error


def _trained_text(tokenizer: PreTrainedTokenizerBase, example: Encoded) -> str:
    """The first span that carries loss, decoded with its special tokens."""
    span: list[int] = []
    for label in example.labels:
        if label != IGNORED:
            span.append(label)
        elif span:
            break
    return tokenizer.decode(span)[:MAX_SAMPLE_CHARACTERS]


def _percentile(numbers: Sequence[int], percent: int) -> int:
    """The smallest number that is not below `percent` of all (0 for none)."""
    if not numbers:
        return 0
    rank = -(-len(numbers) * percent // 100)
    return sorted(numbers)[max(rank, 1) - 1]
