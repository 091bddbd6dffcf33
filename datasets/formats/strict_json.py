"""JSON of one line, read so that every other reader would read it alike.

orjson parses; it is strict but for doubled keys. Why it refused a line is found by the
standard library, which is slower and says more.
"""

from __future__ import annotations

import json
from typing import Any, NoReturn

import orjson

from datasets.formats.report import RowError

MAX_DEPTH = 64  # levels of objects and lists in one row; a chat row with tools needs about 10
MAX_DIGITS = 308  # of an integer: more do not fit a double, which is what most readers use

ESCAPED_QUOTE = b"\\u0022"

TOO_DEEP = f"Objects and lists nest deeper than {MAX_DEPTH} levels."


def parse(line: bytes, *, start: int = 0) -> Any:
    """Return the value of one line. Raises RowError; `start` is the line's offset in the file."""
    try:
        value = orjson.loads(line)
    except orjson.JSONDecodeError as error:
        raise explain(line, str(error), start=start) from error
    num_quotes, depth = measure(value)
    check_depth(depth)
    if num_quotes != line.count(b'"') or ESCAPED_QUOTE in line:
        check_doubled_keys(line)
    return value


def check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise RowError("too_deep", TOO_DEEP)


def measure(value: Any) -> tuple[int, int]:
    """Count the quotes that a value needs as JSON text, and its levels. Without recursion.

    The quotes are those around keys and texts and those inside of them. Text that holds exactly
    as many has no doubled key: the value of one, and the pair of quotes around its key, would be
    lost in parsing. Counting one byte costs far less than reading every object pair by pair.
    (Not so if a quote is written as \\u0022; such lines are read pair by pair.)
    """
    num_quotes = depth = 0
    level = [value] if isinstance(value, (dict, list)) else []
    while level:
        depth += 1
        deeper: list[Any] = []
        for item in level:
            parts = item
            if type(item) is dict:
                num_quotes += 2 * len(item) + "".join(item).count('"')
                parts = item.values()
            for part in parts:
                kind = type(part)
                if kind is str:
                    num_quotes += 2
                    if '"' in part:
                        num_quotes += part.count('"')
                elif kind is dict or kind is list:
                    deeper.append(part)
        level = deeper
    return num_quotes, depth


def check_doubled_keys(line: bytes) -> None:
    """Read every object pair by pair. The line parses and is not too deep. Raises RowError."""
    json.loads(line, object_pairs_hook=_without_doubles)


def explain(line: bytes, reason: str, *, start: int = 0) -> RowError:
    """Say why a line is not JSON as we want it; `reason` is what the fast parser said."""
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        return RowError(
            "not_utf8",
            f"Not UTF-8: byte {error.start + 1} of the line (offset {start + error.start} in the "
            "file) cannot be read. Save the file as UTF-8.",
            column=error.start + 1,
            is_cut=error.reason == "unexpected end of data",
        )
    try:
        value = json.loads(
            text,
            object_pairs_hook=_without_doubles,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_bounded,
        )
    except RowError as error:
        return error
    except RecursionError:
        return RowError("too_deep", TOO_DEEP)
    except json.JSONDecodeError as error:
        return RowError(
            "invalid_json", _hint(text, error), column=error.pos + 1, is_cut=_stops(text, error)
        )
    return _of_accepted(value, reason)


def _of_accepted(value: Any, reason: str) -> RowError:
    """The standard library takes what the fast parser refuses: a lone surrogate, or depth."""
    if measure(value)[1] > MAX_DEPTH:
        return RowError("too_deep", TOO_DEEP)
    try:
        json.dumps(value, ensure_ascii=False).encode("utf-8")
    except UnicodeEncodeError:
        return RowError(
            "lone_surrogate",
            "A text holds half of a surrogate pair (a cut emoji). Cut texts by characters, "
            "not by UTF-16 units.",
        )
    return RowError("invalid_json", f"Not valid JSON: {reason}.")


def _stops(text: str, error: json.JSONDecodeError) -> bool:
    """Tell whether the text ends where more was due: in a string, a word, or between values."""
    if error.msg.startswith("Unterminated string"):
        return True
    end = len(text.rstrip())
    longest_word = len("false")
    return error.pos >= end or (
        error.msg != "Extra data" and error.pos > end - longest_word and text[error.pos].isalpha()
    )


def _hint(text: str, error: json.JSONDecodeError) -> str:
    message = f"Not valid JSON: {error.msg} (column {error.pos + 1})."
    if text.lstrip().startswith("{'"):
        return f"{message} JSON wants double quotes; write rows with json.dumps, not with print."
    if text.startswith("\ufeff"):
        return f"{message} A byte order mark stands before the row: files were joined."
    if "\r" in text.rstrip():
        return f"{message} Lines must end with a line feed, not with a carriage return alone."
    if error.msg == "Extra data" and text[error.pos :].strip() == ",":
        return f"{message} Remove the comma after the object."
    return message


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        double = next(key for key, _ in pairs if key in seen or seen.add(key))
        raise RowError("duplicate_key", f"The key {double[:100]!r} stands twice in one object.")
    return result


def _refuse_constant(name: str) -> NoReturn:
    raise RowError("non_standard_number", f"{name} is not JSON. Use null or leave the key out.")


def _finite(digits: str) -> float:
    number = float(digits)
    if number - number != 0:
        raise RowError("non_standard_number", f"The number {digits[:40]} is too large.")
    return number


def _bounded(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise RowError("non_standard_number", f"A number has {len(digits)} digits: too large.")
    return int(digits)
