"""Token ids to text, piece by piece, without ever showing half a character."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

HALF_CHARACTER = "\ufffd"  # what a decoder writes for bytes that are no character (yet)


class TextStream:
    """Decodes a growing list of ids.

    A token may hold a part of a character, so a piece is only given out once it decodes
    cleanly, and always together with the tokens just before it, since some tokenizers put
    spaces between tokens by looking at their neighbours.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._ids: list[int] = []
        self._start = 0  # where the neighbours begin
        self._shown = 0  # ids before this are given out
        self.text = ""

    def push(self, token_id: int) -> str:
        """Add one id and return the text that is complete now, perhaps none."""
        self._ids.append(token_id)
        return self._give_out(self._undecoded(), is_end=False)

    def finish(self) -> str:
        """The rest of the text; an incomplete last character is left out."""
        return self._give_out(self._undecoded().rstrip(HALF_CHARACTER), is_end=True)

    def _undecoded(self) -> str:
        known = self._decode(self._ids[self._start : self._shown])
        return self._decode(self._ids[self._start :])[len(known) :]

    def _give_out(self, piece: str, *, is_end: bool) -> str:
        if not piece or (piece.endswith(HALF_CHARACTER) and not is_end):
            return ""
        self._start = self._shown
        self._shown = len(self._ids)
        self.text += piece
        return piece

    def _decode(self, ids: list[int]) -> str:
        return self._tokenizer.decode(ids, skip_special_tokens=True)
