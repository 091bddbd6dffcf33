"""Text from rows, files and models on a terminal: whatever could steer it is written out."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TextIO

from rich import box
from rich.console import Console
from rich.table import Table

PLAIN_WIDTH = 240  # of tables that go to a file or a pipe
# Characters that change the direction of what follows, so that a line reads as another one.
BIDI = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")
STEERING = frozenset({"Cc", "Cs", "Zl", "Zp"})  # controls, halves of pairs, line separators


def printable(text: str, *, keep: str = "") -> str:
    """The text with control and direction characters written out, such as `\\x1b`.

    Line breaks and tabs too, unless `keep` names them.
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(_shown(character, keep) for character in text)


def _shown(character: str, keep: str) -> str:
    if character in keep:
        return character
    if character in BIDI or unicodedata.category(character) in STEERING:
        return character.encode("unicode_escape").decode("ascii")
    return character


def plain_console(stream: TextIO) -> Console:
    """A rich console in which text is text: no markup, emoji codes or links are looked for.

    It still passes control characters on: `printable` comes first.
    """
    return Console(
        file=stream,
        width=None if stream.isatty() else PLAIN_WIDTH,
        markup=False,
        emoji=False,
        highlight=False,
    )


def table_of(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """A plain table; every cell is made printable."""
    table = Table(*headings, box=box.SIMPLE_HEAD, pad_edge=False)
    for row in rows:
        table.add_row(*(printable(str(cell)) for cell in row))
    return table
