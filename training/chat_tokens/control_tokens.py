"""Keeps data from being read as control tokens, in the way of the trainer's module of this name.

Each control token in a text is broken by a mark, a rare letter; the rendered text is tokenised
between the marks.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from training.chat_tokens.model_files import ModelFiles

FIRST_MARK, LAST_MARK = 0x2A700, 0x2B738  # ideographs, as in the trainer


class ControlTokens:
    """The special tokens of a model, and those of its added tokens that its template writes."""

    def __init__(self, files: ModelFiles) -> None:
        ids = {
            token.content: token_id
            for token_id, token in files.tokenizer.get_added_tokens_decoder().items()
            if token.content.strip() and (token.special or token.content in files.template_text)
        }
        self.ids = frozenset(ids.values())
        names = "|".join(re.escape(name) for name in sorted(ids)) or "(?!)"
        self._first_letters = {name[0] for name in ids}
        self._name = re.compile(names)
        self._beginning = re.compile(f"(?=(?:{names})).", re.DOTALL)

    def are_in(self, texts: list[str]) -> bool:
        # Most texts hold none of the first letters, and those are found far faster.
        return any(
            any(letter in text for letter in self._first_letters) and self._name.search(text)
            for text in texts
        )

    def fence(self, value: Any) -> tuple[Any, str]:
        """A JSON value whose control tokens are broken by a mark, and that mark ("": none)."""
        texts = _texts(value)
        if not self.are_in(texts):
            return value, ""
        used = set().union(*texts)
        mark = next(chr(code) for code in range(FIRST_MARK, LAST_MARK) if chr(code) not in used)
        replacement = rf"\g<0>{mark}"
        return _map_texts(value, lambda text: self._beginning.sub(replacement, text)), mark


def pieces(text: str, mark: str) -> list[str]:
    """What of a rendered text is tokenised on its own."""
    return [piece for piece in (text.split(mark) if mark else (text,)) if piece]


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in _texts(part)]
    if isinstance(value, list):
        return [text for item in value for text in _texts(item)]
    return []


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list):
        return [_map_texts(item, change) for item in value]
    return value
