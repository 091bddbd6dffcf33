"""Recognises files that are not JSON lines at all, so that they get one error and not thousands."""

from __future__ import annotations

import csv

from datasets.formats.report import RowError

UTF_8_BOM = b"\xef\xbb\xbf"
_COMPRESSED = {
    b"\x1f\x8b": ("gzip", "gunzip"),
    b"PK\x03\x04": ("zip", "unzip"),
    b"PK\x05\x06": ("zip", "unzip"),
    b"BZh": ("bzip2", "bunzip2"),
    b"\xfd7zXZ\x00": ("xz", "unxz"),
    b"\x28\xb5\x2f\xfd": ("zstd", "unzstd"),
    b"7z\xbc\xaf\x27\x1c": ("7-Zip", "7z x"),
}
_UTF_16 = (b"\xff\xfe", b"\xfe\xff", b"{\x00", b"\x00{", b"[\x00", b"\x00[")
_DELIMITERS = {",": "CSV", "\t": "tab-separated CSV", ";": "semicolon-separated CSV"}
_MAX_HEADER_WORDS = 4  # of a column name; longer fields are prose with commas


def check_kind(head: bytes) -> None:
    """Raise RowError if the first bytes are those of another kind of file."""
    for magic, (name, command) in _COMPRESSED.items():
        if head.startswith(magic):
            raise RowError(
                "compressed_file",
                f"This is {name}. Unpack it ({command} FILE) and upload the .jsonl inside.",
            )
    if head.startswith((b"PAR1", b"ARROW1", b"ORC")):
        name = "Parquet" if head.startswith(b"PAR1") else "a column file"
        raise RowError(
            "wrong_format",
            f"This is {name}. Convert it: "
            "pandas.read_parquet(FILE).to_json('train.jsonl', orient='records', lines=True).",
        )
    if head.startswith(_UTF_16):
        raise RowError("not_utf8", "This looks like UTF-16, save as UTF-8.")


def check_table(first: bytes, second: bytes) -> None:
    """Raise RowError if two first lines that are not JSON look like a table with a header."""
    if first.lstrip().startswith((b"{", b"[")) or second.lstrip().startswith(b"{"):
        return
    header = first.decode("utf-8", errors="replace").strip()
    for delimiter, name in _DELIMITERS.items():
        fields = next(csv.reader([header], delimiter=delimiter), [])
        if len(fields) > 1 and all(_is_column(field) for field in fields):
            raise RowError(
                "wrong_format",
                f"This is {name}. Convert it: "
                f"pandas.read_csv(FILE, sep={delimiter!r})"
                ".to_json('train.jsonl', orient='records', lines=True).",
            )


def json_array() -> RowError:
    return RowError(
        "json_array",
        "The file is one JSON array; write one object per line: jq -c '.[]' FILE > train.jsonl.",
    )


def _is_column(field: str) -> bool:
    return 0 < len(field.split()) <= _MAX_HEADER_WORDS and "{" not in field
