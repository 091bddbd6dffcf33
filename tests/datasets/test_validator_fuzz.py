"""The fast validator against a slow and obvious one, on generated and broken files."""

import io
import json
import random

import orjson
import pytest

from datasets.formats import rows, validate
from datasets.formats.report import RowError

MAX_ROW_BYTES = 4096
TEXTS = [
    "Hi",
    'say "x": 1',
    "a\\",
    '\\": "',
    "\u00e9\u8bad \U0001f4e6",
    "<|im_end|>",
    "\x00",
    "\u2028",
    "a\tb\r\nc",
    " ",
    "",
]
PIECES = [
    b'"',
    b"\\",
    b",",
    b":",
    b"{",
    b"}",
    b"[",
    b"]",
    b" ",
    b"\t",
    b"\r",
    b"\n",
    b"\xff",
    b"\xef\xbb\xbf",
    b"NaN",
    b"1e999",
    b"-Infinity",
    b'"a":1,"a":2',
    b'"role" : "user",',
    b'"content"\t:"",',
    b"\\u0022",
    b"\\ud83d",
    b"\\ude42",
    b"\\u00e4",
    b"null",
    b"\x00",
    b"[" * 70 + b"]" * 70,
    b"x" * MAX_ROW_BYTES,
]


def bad_lines(data):
    """The numbers of the lines that are no usable row, read in the most obvious way."""
    data = data.removeprefix(b"\xef\xbb\xbf")
    bad, good, format = [], 0, ""
    for number, line in enumerate(data.split(b"\n"), 1):
        if not line.strip(b" \t\r\x0b\x0c"):
            continue
        try:
            row = slow_row(line)
            found = rows.detect(row)
            rows.check(row, found)
            if format and found != format:
                raise RowError("mixed_formats", "")
            slow_pairs(line)
        except (RowError, ValueError, RecursionError):
            bad.append(number)
        else:
            format = format or found
            good += 1
    return bad, good


def slow_row(line):
    if len(line) > MAX_ROW_BYTES:
        raise ValueError
    row = json.loads(line.decode("utf-8"), parse_constant=refuse, parse_float=finite)
    json.dumps(row, ensure_ascii=False).encode("utf-8")
    if not isinstance(row, dict) or depth_of(row) > 64:
        raise ValueError
    return row


def slow_pairs(line):
    """A doubled key is looked for last: it does not decide the format of the file."""
    json.loads(line, object_pairs_hook=distinct)


def refuse(name):
    raise ValueError(name)


def finite(digits):
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(digits)
    return number


def distinct(pairs):
    if len(dict(pairs)) != len(pairs):
        raise ValueError("doubled")
    return dict(pairs)


def depth_of(value):
    if isinstance(value, dict):
        return 1 + max(map(depth_of, value.values()), default=0)
    if isinstance(value, list):
        return 1 + max(map(depth_of, value), default=0)
    return 0


def random_row(rng):
    turns = rng.choice((1, 2, 2, 2, 3, 4))
    messages = [
        {"role": ("user", "assistant")[i % 2], "content": rng.choice(TEXTS)} for i in range(turns)
    ]
    row = {"messages": messages}
    for key in rng.sample(["id", 'k"ey', "meta", "\u00e4"], rng.randrange(3)):
        row[key] = rng.choice([7, "s", None, {"a": [1, {"b": "x"}]}, ["y"], {}])
    return row


def random_line(rng):
    separators = rng.choice([(",", ":"), (", ", ": "), (" , ", "  :\t"), (",", " \t:")])
    line = json.dumps(
        random_row(rng), ensure_ascii=rng.random() < 0.5, separators=separators
    ).encode()
    if rng.random() < 0.2:
        line = line.replace(b'"content"', b'"content"' + separators[1].encode() + b'"x","content"')
    return line + rng.choice((b"", b"", b"\r", b"  "))


def random_file(rng):
    data = bytearray(b"\n".join(random_line(rng) for _ in range(rng.randrange(1, 8))))
    for _ in range(rng.choice((0, 0, 1, 2))):
        place = rng.randrange(len(data) + 1)
        data[place : place + rng.choice((0, 0, 1, 5))] = rng.choice(PIECES)
    return rng.choice((b"", b"", b"\xef\xbb\xbf")) + bytes(data) + rng.choice((b"", b"\n"))


@pytest.mark.parametrize("seed", range(8))
def test_the_fast_way_refuses_the_same_lines_as_the_slow_one(seed):
    rng = random.Random(seed)
    for _ in range(250):
        data = b'{"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]}\n'
        data = rng.choice((b"\xef\xbb\xbf", b"")) + data + random_file(rng)

        found = validate(io.BytesIO(data), max_row_bytes=MAX_ROW_BYTES)

        lines = [error["line"] for error in found.report["errors"]]
        assert (lines, found.num_records) == bad_lines(data), data


def test_whatever_the_bytes_the_report_is_json():
    rng = random.Random(99)
    for _ in range(500):
        data = rng.randbytes(rng.randrange(60)) + rng.choice(PIECES) + random_line(rng)

        report = validate(io.BytesIO(data), max_row_bytes=MAX_ROW_BYTES).report

        assert orjson.loads(orjson.dumps(report)) == report
        assert (report["error"] is None) == (report["error_count"] == 0)


def test_blocks_of_any_size_give_the_same_report():
    rng = random.Random(5)
    data = b"\n".join(random_line(rng) for _ in range(200))

    whole = validate(io.BytesIO(data), max_row_bytes=MAX_ROW_BYTES)
    dripping = validate(Dripping(data), max_row_bytes=MAX_ROW_BYTES)

    assert dripping == whole


class Dripping(io.BytesIO):
    """Hands out at most 13 bytes at a time, as a socket may."""

    def read(self, size=-1):
        return super().read(min(size, 13))
