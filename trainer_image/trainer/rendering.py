"""Messages to text to token ids: one way, for training and for inference alike.

Letters: `T` tokens of one example.

A conversation becomes one example with a loss on each of the model's turns, if its template
renders a turn in the same way whatever follows. Some do not (Qwen drops the thoughts of earlier
turns). Then each of the model's turns becomes an example of its own, whose prompt is what
inference would ask.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .control_tokens import ControlTokens

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from .rows import Message

IGNORED = -100  # a label that carries no loss, by PyTorch's convention
ANSWER = "Qwxz"  # no template has this word
PROBE = [{"role": "user", "content": "A"}, {"role": "assistant", "content": ANSWER}]
CALL = {"id": "call00001", "type": "function", "function": {"name": ANSWER, "arguments": {}}}
PROBE_CALL = [PROBE[0], {"role": "assistant", "content": "", "tool_calls": [CALL]}]
THOUGHTS = re.compile(r"\s*<think>(.*?)</think>(.*)", re.DOTALL)


class TemplateProblem(ValueError):
    """The chat template cannot render these messages, or not in a way that can be masked."""


@dataclass(frozen=True)
class Encoded:
    """One example: input_ids (T,) and labels (T,), IGNORED where there is no loss."""

    input_ids: list[int]
    labels: list[int]

    @property
    def num_labels(self) -> int:
        return len(self.labels) - self.labels.count(IGNORED)


@dataclass(frozen=True)
class EncodedRow:
    """What became of one row of a dataset."""

    examples: list[Encoded]
    has_control_tokens: bool = False  # in its texts
    leaves_thoughts_out: bool = False  # the template does not render its reasoning_content


class ChatEncoder:
    """Renders and tokenises conversations in the markup of one tokenizer's chat template."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self.control_tokens = ControlTokens(tokenizer)
        self._tokenizer = tokenizer

    def prompt_ids(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None = None
    ) -> list[int]:
        """Token ids up to where the model's answer begins. Raises TemplateProblem."""
        return Chat(self, messages, tools).prompt_ids(len(messages))

    def encode_row(
        self, messages: Sequence[Message], *, tools: Sequence[dict[str, Any]] | None = None
    ) -> EncodedRow:
        """The examples of a conversation, with a loss on what the model itself says.

        That is its words and the token that ends its turn. Raises TemplateProblem.
        """
        return Chat(self, messages, tools).encode()

    def encode_text(self, text: str) -> EncodedRow:
        """Plain text with a loss on all of it, closed by the end-of-text token.

        Nothing is written around it, so control tokens in it are what they say.
        """
        bos, eos_id = self._tokenizer.bos_token, self._tokenizer.eos_token_id
        is_begun = bool(bos) and text.startswith(bos)
        input_ids = self._tokenizer(text, add_special_tokens=not is_begun)["input_ids"]
        if input_ids[-1:] != [eos_id]:
            input_ids = [*input_ids, eos_id]
        labels = [IGNORED, *input_ids[1:]]  # nothing comes before the first token
        return EncodedRow([Encoded(input_ids, labels)], self.control_tokens.are_in(text))

    def render(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[dict[str, Any]] | None = None,
        asks: bool = False,
    ) -> str:
        """The text of a conversation; if it `asks`, it ends where the answer begins."""
        try:
            return self._tokenizer.apply_chat_template(
                list(messages),
                tools=list(tools) if tools else None,
                add_generation_prompt=asks,
                tokenize=False,
            )
        except Exception as error:  # a template may raise anything, even TypeError
            raise TemplateProblem(f"the chat template refuses the messages: {error}") from error

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """The tokens at which an answer is over: the end of a turn or a call, and of the text."""
        ids = {self._tokenizer.eos_token_id}
        _, answer, closing = self.render(PROBE).rpartition(ANSWER)
        ids.update(self._control_ids(closing) if answer else ())
        try:
            _, call, closing = self.render(PROBE_CALL).rpartition(ANSWER)
        except TemplateProblem:  # it has no calls, so no end of one
            return frozenset(ids)
        # After a call some templates begin the tool's response: the model's turn is over there.
        return frozenset(ids.union(self._control_ids(closing)[-1:] if call else ()))

    @cached_property
    def empty_thoughts(self) -> str:
        """What the template asks with but does not write into an answered turn ("": nothing).

        Some templates open and close the channel for thoughts when they ask, to say that there
        shall be none.
        """
        start = len(self.render(PROBE[:1]))
        asked = self.render(PROBE[:1], asks=True)[start:]
        answered = self.render(PROBE)[start:]
        pairs = zip(asked, answered, strict=False)
        differs_at = next((i for i, (one, other) in enumerate(pairs) if one != other), len(asked))
        extra = asked[differs_at:]
        num_tokens = len(self._control_ids(extra))
        return extra if num_tokens and num_tokens % 2 == 0 else ""

    @cached_property
    def lifts_thoughts(self) -> bool:
        """Whether the template looks for thoughts in `reasoning_content` and between tags."""
        template = str(self._tokenizer.chat_template)
        return "</think>" in template and "reasoning_content" in template

    def _control_ids(self, text: str) -> list[int]:
        ids = self.control_tokens.encode(text, "")
        return [token_id for token_id in ids if token_id in self.control_tokens.ids]


@dataclass(frozen=True)
class Turn:
    """One of the model's turns in rendered text: up to where it answers, and with its answer."""

    index: int
    before: str
    after: str

    def is_kept_in(self, text: str) -> bool:
        return self.after.startswith(self.before) and text.startswith(self.after)


class Chat:
    """One conversation, whose texts can no longer be read as control tokens."""

    def __init__(
        self,
        encoder: ChatEncoder,
        messages: Sequence[Message],
        tools: Sequence[dict[str, Any]] | None,
    ) -> None:
        self._encoder = encoder
        if encoder.lifts_thoughts:
            messages = [_lift_thoughts(message) for message in messages]
        fenced, self._mark = encoder.control_tokens.fence([messages, tools])
        self._messages, self._tools = fenced
        self._rendered: dict[tuple[int, bool], str] = {}

    def prompt_ids(self, end: int) -> list[int]:
        """Token ids of what the model is asked after the first `end` messages.

        The text is cut where the model's earlier turns begin and end, and the pieces are
        tokenised one by one: so no token straddles such a border, and a prompt has the same ids
        in training and in inference.
        """
        text, ids, done = self._render(end, asks=True), [], 0
        for turn in self._turns(end):
            if turn.is_kept_in(text):
                ids += self._ids(text[done : len(turn.before)])
                ids += self._ids(text[len(turn.before) : len(turn.after)])
                done = len(turn.after)
        return ids + self._ids(text[done:])

    def encode(self) -> EncodedRow:
        """All of the conversation as examples."""
        turns = self._turns(len(self._messages))
        full = self._render(len(self._messages))
        if all(turn.is_kept_in(full) for turn in turns):
            examples = [self._encode_kept(full, turns)]
        else:
            examples = [self._encode_last(turn) for turn in turns]
        return EncodedRow(examples, bool(self._mark), self._leaves_thoughts_out())

    def _turns(self, end: int) -> list[Turn]:
        """The turns that the model was asked for; one that opens a conversation was not."""
        return [
            Turn(index, self._render(index, asks=True), self._render(index + 1))
            for index, message in enumerate(self._messages[:end])
            if message["role"] == "assistant" and index
        ]

    def _encode_kept(self, text: str, turns: Sequence[Turn]) -> Encoded:
        input_ids: list[int] = []
        labels: list[int] = []
        done = 0
        for turn in turns:
            prompt = self._ids(text[done : len(turn.before)])
            answer, answer_labels = self._encode_answer(turn, turn.after[len(turn.before) :])
            input_ids += prompt + answer
            labels += [IGNORED] * len(prompt) + answer_labels
            done = len(turn.after)
        rest = self._ids(text[done:])
        return Encoded(input_ids + rest, labels + [IGNORED] * len(rest))

    def _encode_last(self, turn: Turn) -> Encoded:
        """One turn as inference would ask for it, and its answer."""
        prompt = self.prompt_ids(turn.index)
        answer, labels = self._encode_answer(turn, self._answer_text(turn))
        return Encoded(prompt + answer, [IGNORED] * len(prompt) + labels)

    def _answer_text(self, turn: Turn) -> str:
        if turn.after.startswith(turn.before):
            return turn.after[len(turn.before) :]
        extra = self._encoder.empty_thoughts
        header = turn.before.removesuffix(extra)
        answer = turn.after.removeprefix(header)
        thinks = extra and self._ids(answer)[:1] == self._ids(extra)[:1]
        if not extra or thinks or answer == turn.after:
            raise TemplateProblem(
                "the chat template renders the answered turn otherwise than it asks for the "
                "answer, so the model's own words cannot be told from the prompt"
            )
        return answer

    def _encode_answer(self, turn: Turn, text: str) -> tuple[list[int], list[int]]:
        """Ids and labels of an answer: there is a loss up to the token that ends the turn."""
        message = self._messages[turn.index]
        calls = message.get("tool_calls") or []
        own = [message["content"].strip(), *(call["function"]["name"] for call in calls)]
        if not all(words in text for words in own):
            raise TemplateProblem(
                "the chat template leaves out or changes what the assistant says"
                + (" or calls" if calls else "")
            )
        ids = self._ids(text)
        end = next((i for i, one in enumerate(ids, start=1) if one in self._encoder.stop_ids), None)
        if end is None:
            raise TemplateProblem(
                "the chat template ends the assistant's turn with no special token, "
                "so the model would never learn to stop"
            )
        return ids, ids[:end] + [IGNORED] * (len(ids) - end)

    def _leaves_thoughts_out(self) -> bool:
        last = self._messages[-1]
        thoughts = last.get("reasoning_content")
        return bool(thoughts) and thoughts.strip() not in self._render(len(self._messages))

    def _render(self, end: int, *, asks: bool = False) -> str:
        key = (end, asks)
        if key not in self._rendered:
            self._rendered[key] = self._encoder.render(
                self._messages[:end], tools=self._tools, asks=asks
            )
        return self._rendered[key]

    def _ids(self, text: str) -> list[int]:
        return self._encoder.control_tokens.encode(text, self._mark)


def _lift_thoughts(message: Message) -> Message:
    """A message whose thoughts are in their own field: in its content their tags are data."""
    if message["role"] != "assistant" or message.get("reasoning_content"):
        return message
    match = THOUGHTS.fullmatch(message["content"])
    if match is None:
        return message
    thoughts, content = match.groups()
    return message | {"content": content.lstrip("\n"), "reasoning_content": thoughts.strip("\n")}
