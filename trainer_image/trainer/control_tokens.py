"""Keeps data from being read as control tokens, in training and in inference alike.

A tokenizer finds its control tokens anywhere in a text, so a user who writes `<turn|>` would
end his turn. Before a chat template sees the messages, each such string in them is broken by a
mark, a rare letter that is not in the messages; the template passes it on like any letter. The
rendered text is then tokenised between the marks, so the broken strings can only become plain
characters, while those that the template wrote are what they always were.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

# Rare ideographs: letters to every template, unlike private-use characters, which Python and
# JSON may write as escapes.
FIRST_MARK, LAST_MARK = 0x2A700, 0x2B738


class ControlTokens:
    """The control tokens of a tokenizer with its chat template.

    They are its special tokens, and those of its other added tokens that the template writes
    (such as `<think>`), but no white space, which templates write as ordinary text.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        template = str(tokenizer.chat_template)
        ids = {
            token.content: token_id
            for token_id, token in tokenizer.added_tokens_decoder.items()
            if token.content.strip() and (token.special or token.content in template)
        }
        self.ids = frozenset(ids.values())
        names = "|".join(re.escape(name) for name in sorted(ids)) or "(?!)"
        # Each place where one begins, also inside of another: a cut after its first character
        # breaks it. One of a single character cannot be broken, and no tokenizer here has one.
        self._beginning = re.compile(f"(?=(?:{names})).", re.DOTALL)

    def are_in(self, value: Any) -> bool:
        """Whether any text in a JSON value, keys included, holds a control token."""
        return any(self._beginning.search(text) for text in _texts(value))

    def fence(self, value: Any) -> tuple[Any, str]:
        """A JSON value whose control tokens are broken by a mark, and that mark ("": none)."""
        if not self.are_in(value):
            return value, ""
        used = set().union(*_texts(value))
        mark = next(chr(code) for code in range(FIRST_MARK, LAST_MARK) if chr(code) not in used)
        replacement = rf"\g<0>{mark}"
        return _map_texts(value, lambda text: self._beginning.sub(replacement, text)), mark

    def encode(self, text: str, mark: str) -> list[int]:
        """Token ids of a rendered text, tokenised between the marks."""
        ids: list[int] = []
        for piece in text.split(mark) if mark else [text]:
            if piece:
                # The template has written the special tokens already.
                ids += self._tokenizer(piece, add_special_tokens=False)["input_ids"]
        return ids


def _texts(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    if isinstance(value, dict):
        return [text for item in value.items() for part in item for text in _texts(part)]
    if isinstance(value, list | tuple):
        return [text for item in value for text in _texts(item)]
    return []


def _map_texts(value: Any, change: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {change(key): _map_texts(item, change) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_map_texts(item, change) for item in value]
    return value
