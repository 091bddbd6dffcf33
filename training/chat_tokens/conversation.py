"""One conversation, cut into what is prompt and what is answer, before it is tokenised.

The cuts are the trainer's (`trainer_image/trainer/rendering.py`): an example for the whole
conversation where the template keeps every turn as it was, else one for each answer.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from training.chat_tokens.control_tokens import pieces
from training.chat_tokens.markup import Markup
from training.chat_tokens.templates import Message, TemplateProblem, shown_to_template

THOUGHTS = re.compile(r"\s*<think>(.*?)</think>(.*)", re.DOTALL)
NO_END = (
    "the chat template ends the assistant's turn with no special token, "
    "so the model would never learn to stop"
)


@dataclass(frozen=True)
class Segment:
    """Text that is tokenised piece by piece; an answer carries loss up to its end of turn."""

    pieces: list[str]
    is_answer: bool = False


Plan = list[Segment]  # one example


@dataclass(frozen=True)
class Turn:
    """One of the model's turns in rendered text: up to where it answers, and with its answer."""

    index: int
    before: str
    after: str

    def is_kept_in(self, text: str) -> bool:
        return self.after.startswith(self.before) and text.startswith(self.after)


class Conversation:
    """The messages of one row, whose texts can no longer be read as control tokens."""

    def __init__(self, markup: Markup, messages: list[Message], tools: Any) -> None:
        self._markup = markup
        if markup.lifts_thoughts:
            messages = [_lift_thoughts(message) for message in messages]
        fenced, self._mark = markup.control_tokens.fence([messages, tools])
        self._messages, self._tools = fenced
        self._shown = [shown_to_template(message) for message in self._messages]
        self._rendered: dict[tuple[int, bool], str] = {}

    def plans(self) -> list[Plan]:
        """The examples of the conversation. Raises TemplateProblem."""
        turns = self._turns(len(self._messages))
        full = self._render(len(self._messages))
        if all(turn.is_kept_in(full) for turn in turns):
            return [self._plan_kept(full, turns)]
        return [self._plan_last(turn) for turn in turns]

    def _turns(self, end: int) -> list[Turn]:
        """The turns that the model was asked for; one that opens a conversation was not."""
        return [
            Turn(index, self._render(index, asks=True), self._render(index + 1))
            for index, message in enumerate(self._messages[:end])
            if message["role"] == "assistant" and index
        ]

    def _plan_kept(self, text: str, turns: list[Turn]) -> Plan:
        plan: Plan = []
        done = 0
        for turn in turns:
            plan.append(self._segment(text[done : len(turn.before)]))
            plan.append(self._answer(turn, turn.after[len(turn.before) :]))
            done = len(turn.after)
        return [*plan, self._segment(text[done:])]

    def _plan_last(self, turn: Turn) -> Plan:
        """One turn as inference would ask for it, and its answer."""
        text, plan, done = self._render(turn.index, asks=True), [], 0
        for earlier in self._turns(turn.index):
            if earlier.is_kept_in(text):
                plan.append(self._segment(text[done : len(earlier.before)]))
                plan.append(self._segment(text[len(earlier.before) : len(earlier.after)]))
                done = len(earlier.after)
        return [*plan, self._segment(text[done:]), self._answer(turn, self._answer_text(turn))]

    def _answer_text(self, turn: Turn) -> str:
        if turn.after.startswith(turn.before):
            return turn.after[len(turn.before) :]
        extra = self._markup.empty_thoughts
        header = turn.before.removesuffix(extra)
        answer = turn.after.removeprefix(header)
        thinks = extra and self._first_id(answer) == self._first_id(extra)
        if not extra or thinks or answer == turn.after:
            raise TemplateProblem(
                "the chat template renders the answered turn otherwise than it asks for the "
                "answer, so the model's own words cannot be told from the prompt"
            )
        return answer

    def _first_id(self, text: str) -> list[int]:
        return [one for piece in pieces(text, self._mark) for one in self._markup.ids(piece)][:1]

    def _answer(self, turn: Turn, text: str) -> Segment:
        message = self._messages[turn.index]
        calls = message.get("tool_calls") or []
        own = [message["content"].strip(), *(call["function"]["name"] for call in calls)]
        if not all(words in text for words in own):
            raise TemplateProblem(
                "the chat template leaves out or changes what the assistant says"
                + (" or calls" if calls else "")
            )
        return self._segment(text, is_answer=True)

    def _segment(self, text: str, *, is_answer: bool = False) -> Segment:
        return Segment(pieces(text, self._mark), is_answer)

    def _render(self, end: int, *, asks: bool = False) -> str:
        key = (end, asks)
        if key not in self._rendered:
            self._rendered[key] = self._markup.render(
                self._shown[:end], tools=self._tools, asks=asks
            )
        return self._rendered[key]


def _lift_thoughts(message: Message) -> Message:
    """A message whose thoughts are in their own field: in its content their tags are data."""
    if message["role"] != "assistant" or message.get("reasoning_content"):
        return message
    match = THOUGHTS.fullmatch(message["content"])
    if match is None:
        return message
    thoughts, content = match.groups()
    return message | {"content": content.lstrip("\n"), "reasoning_content": thoughts.strip("\n")}
