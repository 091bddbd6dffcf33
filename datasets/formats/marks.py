"""Chat markup and NUL inside of texts: allowed, but worth a warning."""

from __future__ import annotations

import re

# Turn and special tokens of common chat templates; a tokenizer reads them as such.
_CONTROL_TOKEN = re.compile(
    r"<\|[A-Za-z_][\w.-]{0,40}\|?>|<\|\"\|>|<[A-Za-z_]{1,40}\|>"
    r"|<(?:start|end)_of_(?:turn|image)>|<(?:[be]os|pad)>|\[/?INST\]"
)
# The beginnings of the same in JSON text, where each search costs.
_MAYBE = re.compile(rb"<(?:\||[A-Za-z_]{1,40}\|>|(?:start|end)_of_|[be]os>|pad>)")
# Characters below 128 that were written as \u00xx: NUL always is, < and > are by some writers.
_ASCII_ESCAPE = re.compile(rb"\\u00[0-7]")


def may_hold(text: bytes) -> bool:
    """False only if JSON text of any length holds no mark; a few fast searches."""
    return _MAYBE.search(text) is not None or b"INST]" in text or has_ascii_escape(text)


def has_ascii_escape(text: bytes) -> bool:
    return _ASCII_ESCAPE.search(text) is not None


def holds_control_token(text: str) -> bool:
    return _CONTROL_TOKEN.search(text) is not None
