"""From rows to token counts, many rows to a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any

from tokenizers import Encoding

from training.chat_tokens.conversation import NO_END, Conversation, Plan
from training.chat_tokens.markup import Markup
from training.chat_tokens.model_files import BadModelFiles, read_model_files
from training.chat_tokens.templates import TemplateProblem


@dataclass(frozen=True)
class ExampleTokens:
    """One example: its tokens, those that carry loss, and where the first of these stands."""

    num_tokens: int
    num_trained: int
    first_trained: int | None


@dataclass(frozen=True)
class RowTokens:
    """One row: one example, or one for each answer where the template asks for that.

    A row that the template refuses has none, and the reason.
    """

    examples: tuple[ExampleTokens, ...] = ()
    refused: str = ""


class ChatTokens:
    """Counts the rows of datasets in the tokens of one base model."""

    def __init__(self, folder: Path) -> None:
        """Raises BadModelFiles."""
        files = read_model_files(folder)
        self._tokenizer = files.tokenizer
        self._bos = files.named_tokens.get("bos_token", "")
        self._eos_id = files.token_id("eos_token")
        self._markup = Markup(files)

    def row_tokens(self, row: dict[str, Any]) -> RowTokens:
        """Count one row as `datasets.formats.normalise` returns it."""
        return self.rows_tokens([row])[0]

    def rows_tokens(self, rows: Sequence[dict[str, Any]]) -> list[RowTokens]:
        """The counts of each row, in their order. Raises BadModelFiles."""
        plans = [self._plans(row) for row in rows]
        chats = self._encode_plans(plans)
        texts = iter(self._count_texts([row["text"] for row in rows if "text" in row]))
        return [
            RowTokens((next(texts),)) if "text" in row else self._count_chat(plan, chats)
            for row, plan in zip(rows, plans, strict=True)
        ]

    # --- Conversations -------------------------------------------------------------------------

    def _plans(self, row: dict[str, Any]) -> list[Plan] | TemplateProblem:
        if "text" in row:
            return []
        try:
            return Conversation(self._markup, row["messages"], row["tools"]).plans()
        except TemplateProblem as problem:
            return problem

    def _encode_plans(self, plans: list[list[Plan] | TemplateProblem]) -> Iterator[Encoding]:
        """The encodings of all pieces, in the order in which the plans name them."""
        texts = [
            piece
            for examples in plans
            if not isinstance(examples, TemplateProblem)
            for plan in examples
            for segment in plan
            for piece in segment.pieces
        ]
        return iter(self._tokenizer.encode_batch_fast(texts, add_special_tokens=False))

    def _count_chat(
        self, plans: list[Plan] | TemplateProblem, encodings: Iterator[Encoding]
    ) -> RowTokens:
        if isinstance(plans, TemplateProblem):
            return RowTokens(refused=str(plans))
        examples = [self._count_plan(plan, encodings) for plan in plans]
        if None in examples:
            return RowTokens(refused=NO_END)
        return RowTokens(tuple(examples))

    def _count_plan(self, plan: Plan, encodings: Iterator[Encoding]) -> ExampleTokens | None:
        """None if an answer has no end. Takes all encodings of the plan in any case."""
        num_tokens = num_trained = 0
        first_trained: int | None = None
        has_ends = True
        for segment in plan:
            found = list(islice(encodings, len(segment.pieces)))
            if segment.is_answer:
                end = self._end_of_answer(found)
                has_ends = has_ends and end > 0
                first_trained = num_tokens if first_trained is None else first_trained
                num_trained += end
            num_tokens += sum(map(len, found))
        return ExampleTokens(num_tokens, num_trained, first_trained) if has_ends else None

    def _end_of_answer(self, encodings: list[Encoding]) -> int:
        """Tokens of an answer up to the one that ends the turn; 0 if none does."""
        before = 0
        for encoding in encodings:
            ids = encoding.ids
            for index, token_id in enumerate(ids):
                if token_id in self._stop_ids:
                    return before + index + 1
            before += len(ids)
        return 0

    @cached_property
    def _stop_ids(self) -> frozenset[int]:
        return self._markup.stop_ids

    # --- Plain text ----------------------------------------------------------------------------

    def _count_texts(self, texts: list[str]) -> Iterator[ExampleTokens]:
        """Loss on all of a text but its first token; it is closed by the end-of-text token."""
        if texts and self._eos_id is None:
            raise BadModelFiles("tokenizer_config.json names no end-of-text token (eos_token)")
        begun = [bool(self._bos) and text.startswith(self._bos) for text in texts]
        encoded = {
            is_begun: iter(
                self._tokenizer.encode_batch_fast(
                    [text for text, one in zip(texts, begun, strict=True) if one is is_begun],
                    add_special_tokens=not is_begun,
                )
            )
            for is_begun in (False, True)
        }
        for is_begun in begun:
            ids = next(encoded[is_begun]).ids
            num_tokens = len(ids) + (ids[-1:] != [self._eos_id])
            num_trained = num_tokens - 1
            yield ExampleTokens(num_tokens, num_trained, 1 if num_trained else None)
