"""The streaming validator: one pass over a file, in memory that does not grow with it.

Most lines of most files are plain chat rows. Those take a short way (`_plain_chat_quotes`) that
only counts; whatever it does not know takes the long way, which finds what is wrong.
"""

from __future__ import annotations

import hashlib
import mmap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO

import orjson

from datasets.formats import marks, rows, sniff, strict_json
from datasets.formats.report import Report, RowError

BLOCK_BYTES = 2**20
MAX_COMPARED = 500_000  # rows looked at for duplicates
_SLOTS = 2**20  # of 8 bytes each: at most half full with MAX_COMPARED digests
MIN_ROWS = 10  # fewer are worth a warning

_QUOTES_PER_KEY = 2
_QUOTES_PER_MESSAGE = 8  # around two keys, a role and a text

# Plain turns as a machine: from the role of a message to what may follow it.
_AFTER_ASSISTANT: dict[str, dict] = {}
_AFTER_USER = {"assistant": _AFTER_ASSISTANT}
_AFTER_SYSTEM = {"user": _AFTER_USER}
_AFTER_ASSISTANT["user"] = _AFTER_USER
_START = {"user": _AFTER_USER, "system": _AFTER_SYSTEM, "developer": _AFTER_SYSTEM}


@dataclass(frozen=True)
class Validation:
    """What one pass over a file found. `sha256` is empty if the file was given up early."""

    report: dict[str, Any]
    sha256: str
    size_bytes: int
    num_records: int
    format: str

    @property
    def is_valid(self) -> bool:
        return not self.report["error_count"]


def validate(
    file: BinaryIO, *, max_row_bytes: int, progress: Callable[[int], None] | None = None
) -> Validation:
    """Read a whole file from where it stands and report on it.

    `progress` is called with the number of bytes read so far, about once per MiB.
    """
    scan = _Scan(max_row_bytes)
    try:
        for block in _blocks(file):
            scan.feed(block)
            if progress:
                progress(scan.size_bytes)
        scan.finish()
    except _GiveUp as reason:
        scan.report.replace_errors(reason.error, reason.line)
        return scan.result(is_whole=False)
    return scan.result(is_whole=True)


def _blocks(file: BinaryIO) -> Iterator[bytes]:
    """The file in blocks of BLOCK_BYTES, also where it hands out less at a time."""
    while block := file.read(BLOCK_BYTES):
        while len(block) < BLOCK_BYTES and (more := file.read(BLOCK_BYTES - len(block))):
            block += more
        yield block


class _GiveUp(Exception):
    """The file is of another kind; further lines would only repeat that."""

    def __init__(self, error: RowError, line: int | None) -> None:
        super().__init__(error.message)
        self.error = error
        self.line = line


class _Scan:
    """The state of one pass: what was found, and the line that is not complete yet."""

    def __init__(self, max_row_bytes: int) -> None:
        self.report = Report()
        self.format = ""
        self.num_records = 0
        self.size_bytes = 0
        self._max_row_bytes = max_row_bytes
        self._sha256 = hashlib.sha256()
        self._digests = _Digests()
        self._carry = b""  # the start of a line whose end was not read yet
        self._is_skipping = False  # inside a line that is too long
        self._line = 0
        self._offset = 0  # in the file, of the line in hand
        self._num_rows = 0  # lines that are not blank, good or bad
        self._header: bytes | None = None  # the first row, if it is no JSON: of a table?
        self._array_line: int | None = None  # the first row, if it is a complete JSON array
        self._cut_line: int | None = None  # the last row, if it stops in the middle

    def feed(self, block: bytes) -> None:
        self._sha256.update(block)
        data = self._carry + block if self.size_bytes else self._without_bom(block)
        self.size_bytes += len(block)
        if self._is_skipping:
            data = self._skip(data)
        lines, line_feed, self._carry = data.rpartition(b"\n")
        if line_feed:
            self._take_lines(lines)
        if len(self._carry) > self._max_row_bytes:
            self._start_skipping()

    def finish(self) -> None:
        if self._is_skipping:
            self._end_skipping()
        elif self._carry:
            self._take_lines(self._carry)
        if self._header:
            self._check_table(b"")
        if self._array_line and self._num_rows == 1:
            raise _GiveUp(sniff.json_array(), self._array_line)
        if not self._num_rows:
            raise _GiveUp(RowError("no_records", "The file holds no rows."), None)
        if self._cut_line:
            self.report.extend_message(self._cut_line, "The file may be cut off here.")
        if self.num_records < MIN_ROWS:
            self.report.warn("few_rows", count=self.num_records)

    def result(self, *, is_whole: bool) -> Validation:
        report = self.report.as_json(
            num_records=self.num_records,
            format=self.format or None,
            rows_compared=min(self.num_records, MAX_COMPARED),
        )
        return Validation(
            report=report,
            sha256=self._sha256.hexdigest() if is_whole else "",
            size_bytes=self.size_bytes,
            num_records=self.num_records,
            format=self.format,
        )

    def _without_bom(self, block: bytes) -> bytes:
        try:
            sniff.check_kind(block[:16])
        except RowError as error:
            raise _GiveUp(error, 1) from error
        if not block.startswith(sniff.UTF_8_BOM):
            return block
        self.report.warn("bom", 1)
        self._offset = len(sniff.UTF_8_BOM)
        return block[len(sniff.UTF_8_BOM) :]

    def _start_skipping(self) -> None:
        if not self._num_rows and self._carry.lstrip().startswith(b"["):
            raise _GiveUp(sniff.json_array(), self._line + 1)
        self._is_skipping = True
        self._offset += len(self._carry)
        self._carry = b""

    def _skip(self, data: bytes) -> bytes:
        """Drop what belongs to the line that is too long; return what follows it."""
        dropped, line_feed, rest = data.partition(b"\n")
        self._offset += len(dropped) + len(line_feed)
        if line_feed:
            self._end_skipping()
        return rest

    def _end_skipping(self) -> None:
        self._is_skipping = False
        self._line += 1
        self._num_rows += 1
        self.report.add_error(self._too_long(), self._line)

    def _too_long(self) -> RowError:
        return RowError(
            "line_too_long",
            f"The line is longer than {self._max_row_bytes} bytes (GLIGABAO_MAX_ROW_BYTES).",
        )

    def _take_lines(self, text: bytes) -> None:
        may_hold_marks = marks.may_hold(text)
        first_line = self._line + 1
        lines = text.split(b"\n")
        quotes = []
        for line in lines:
            self._line += 1
            quotes.append(self._take_line(line, may_hold_marks))
            self._offset += len(line) + 1
        has_escapes = may_hold_marks and marks.has_ascii_escape(text)
        if has_escapes or sum(quotes) != text.count(b'"'):
            self._find_doubled_keys(lines, quotes, first_line=first_line)

    def _take_line(self, line: bytes, may_hold_marks: bool) -> int:
        """Check one line; return how many quotes its row needs, -1 if it is refused."""
        if not line or line.isspace():
            self.report.warn("blank_lines", self._line)
            return 0
        self._num_rows += 1
        self._cut_line = None
        if self._header:
            self._check_table(line)
        try:
            if len(line) > self._max_row_bytes:
                raise self._too_long()
            return self._take_row(line, may_hold_marks)
        except RowError as error:
            self._refuse(line, error)
            return -1

    def _take_row(self, line: bytes, may_hold_marks: bool) -> int:
        try:
            row = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise strict_json.explain(line, str(error), start=self._offset) from error
        num_quotes = _plain_chat_quotes(row) if self.format in ("", rows.CHAT) else 0
        if num_quotes:
            self.format = rows.CHAT
        else:
            num_quotes = self._check_row(row)
        if self.num_records < MAX_COMPARED and self._digests.is_known(line.strip()):
            self.report.warn("duplicate_rows", self._line)
        self.num_records += 1
        if may_hold_marks and marks.may_hold(line):
            self._find_marks(row)
        return num_quotes

    def _check_row(self, row: Any) -> int:
        num_quotes, depth = strict_json.measure(row)
        strict_json.check_depth(depth)
        if not isinstance(row, dict):
            raise RowError("not_an_object", "The line is not a JSON object.")
        format = rows.detect(row)
        alternates = rows.check(row, format)
        if self.format and format != self.format:
            raise RowError(
                "mixed_formats",
                f"This row is {format}, the rows before are {self.format}. "
                "One file holds one format.",
            )
        self.format = format
        if not alternates:
            self.report.warn("role_order", self._line)
        return num_quotes

    def _find_marks(self, row: dict[str, Any]) -> None:
        texts = rows.texts_of(row, self.format)
        if any(marks.holds_control_token(text) for text in texts):
            self.report.warn("control_tokens", self._line)
        if any("\0" in text for text in texts):
            self.report.warn("nul", self._line)

    def _refuse(self, line: bytes, error: RowError) -> None:
        start = line.lstrip()[:1]
        if self._num_rows == 1 and start == b"[":
            if error.code != "not_an_object":
                raise _GiveUp(sniff.json_array(), self._line)
            self._array_line = self._line
        elif self._num_rows == 1 and start != b"{" and error.code == "invalid_json":
            self._header = line
        self._cut_line = self._line if error.is_cut else None
        self.report.add_error(error, self._line)

    def _check_table(self, second: bytes) -> None:
        header, self._header = self._header, None
        try:
            sniff.check_table(header, second)
        except RowError as error:
            raise _GiveUp(error, self.report.errors[0].line) from error

    def _find_doubled_keys(self, lines: list[bytes], quotes: list[int], *, first_line: int) -> None:
        for number, (line, needed) in enumerate(zip(lines, quotes, strict=True), first_line):
            if needed < 0 or (needed == line.count(b'"') and not marks.has_ascii_escape(line)):
                continue
            try:
                strict_json.check_doubled_keys(line)
            except RowError as error:
                self.num_records -= 1
                self.report.add_error(error, number)


def _plain_chat_quotes(row: Any) -> int:
    """The quotes that a chat row needs in which nothing can be wrong; 0 for all others.

    That is: texts with words, turns that alternate, no tools. See `strict_json.measure`.
    """
    follows = _START
    num_quotes = 0
    try:
        messages = row["messages"]
        for message in messages:
            content = message["content"]
            if len(message) != 2 or type(content) is not str or not content or content.isspace():
                return 0
            follows = follows[message["role"]]
            num_quotes += _QUOTES_PER_MESSAGE
            if '"' in content:
                num_quotes += content.count('"')
    except (KeyError, TypeError):
        return 0
    if follows is not _AFTER_ASSISTANT or type(messages) is not list:
        return 0
    if len(row) == 1:
        return num_quotes + _QUOTES_PER_KEY
    return _with_extra_keys(row, num_quotes)


def _with_extra_keys(row: dict[str, Any], num_quotes: int) -> int:
    extra = {key: value for key, value in row.items() if key != "messages"}
    extra_quotes, depth = strict_json.measure(extra)
    if depth > strict_json.MAX_DEPTH or "tools" in row:
        return 0
    return num_quotes + _QUOTES_PER_KEY + extra_quotes


class _Digests:
    """Digests of rows in 8 MiB whatever their number: a table with open addressing.

    The digest is Python's own keyed hash of the bytes (SipHash, 64 bit): a file cannot be made
    to collide, and by chance it happens once in some 10^8 files of this size.
    """

    def __init__(self) -> None:
        self._slots = memoryview(mmap.mmap(-1, _SLOTS * 8)).cast("q")  # zero pages cost nothing

    def is_known(self, row: bytes) -> bool:
        """Tell whether the same bytes were given before, and remember them."""
        digest = hash(row) or 1  # 0 marks a free slot
        slots = self._slots
        place = digest % _SLOTS
        while held := slots[place]:
            if held == digest:
                return True
            place = (place + 1) % _SLOTS
        slots[place] = digest
        return False
