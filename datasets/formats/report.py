"""Collects what is wrong or odd in a file into one report of bounded size."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

MAX_LISTED = 100  # errors listed with their place; the rest is only counted
MAX_WARNING_LINES = 20  # lines kept per warning, for a look at those rows


class RowError(Exception):
    """What makes one line, or the whole file, unusable."""

    def __init__(
        self,
        code: str,
        message: str,
        *,
        path: str | None = None,
        column: int | None = None,
        is_cut: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.path = path
        self.column = column
        self.is_cut = is_cut  # the line stops in the middle of a value

    def within(self, place: str) -> RowError:
        """The same error, its path continued outwards: `.content` within `messages[1]`."""
        self.path = f"{place}{self.path or ''}"
        return self


@dataclass
class ListedError:
    line: int | None
    column: int | None
    path: str | None
    code: str
    message: str


WARNINGS = {
    "bom": "The file starts with a byte order mark; it was skipped.",
    "blank_lines": "Blank lines were skipped.",
    "duplicate_rows": "Rows repeat an earlier row byte for byte.",
    "control_tokens": "Texts hold chat markup such as <|im_end|>; a model reads it as a real turn.",
    "nul": "Texts hold the NUL character.",
    "few_rows": "Very few examples. Most models need some dozens to learn from.",
    "role_order": (
        "Turns do not alternate between user and assistant; only some models accept that."
    ),
}


class Report:
    """Errors and warnings, in the order in which they were found."""

    def __init__(self) -> None:
        self.errors: list[ListedError] = []
        self.codes: Counter[str] = Counter()
        self._warning_counts: Counter[str] = Counter()
        self._warning_lines: dict[str, list[int]] = {}

    def add_error(self, error: RowError, line: int | None) -> None:
        self.codes[error.code] += 1
        if len(self.errors) < MAX_LISTED:
            self.errors.append(
                ListedError(line, error.column, error.path, error.code, error.message)
            )

    def replace_errors(self, error: RowError, line: int | None) -> None:
        """Keep this error alone: it explains all that was found before."""
        self.errors.clear()
        self.codes.clear()
        self.add_error(error, line)

    def extend_message(self, line: int, sentence: str) -> None:
        """Say more about the error of a line, if it is among those listed."""
        for error in self.errors:
            if error.line == line:
                error.message = f"{error.message} {sentence}"

    def warn(self, code: str, line: int | None = None, *, count: int = 1) -> None:
        self._warning_counts[code] += count
        lines = self._warning_lines.setdefault(code, [])
        if line is not None and len(lines) < MAX_WARNING_LINES:
            lines.append(line)

    @property
    def error_count(self) -> int:
        return self.codes.total()

    def as_json(self, **facts: Any) -> dict[str, Any]:
        """The report as users see it; `facts` are what else is known of the file."""
        self.errors.sort(key=lambda error: error.line or 0)  # doubled keys are found later
        return {
            "error": self._sentence(),
            "code": self.errors[0].code if self.errors else None,
            "errors": [asdict(error) for error in self.errors],
            "error_count": self.error_count,
            "codes": dict(self.codes),
            "warnings": [self._warning(code) for code in self._warning_counts],
            "role_order_line": next(iter(self._warning_lines.get("role_order", ())), None),
        } | facts

    def _sentence(self) -> str | None:
        if not self.errors:
            return None
        first = self.errors[0]
        place = f"Line {first.line}: " if first.line else ""
        if self.error_count == 1:
            return f"{place}{first.message}"
        return f"{self.error_count} problems. The first: {place}{first.message}"

    def _warning(self, code: str) -> dict[str, Any]:
        lines = self._warning_lines[code]
        return {
            "code": code,
            "count": self._warning_counts[code],
            "message": WARNINGS[code],
            "line": lines[0] if lines else None,
            "lines": lines,
        }
