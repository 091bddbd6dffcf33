"""What the markup of a model is: found by rendering probes through its chat template."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from training.chat_tokens.control_tokens import ControlTokens
from training.chat_tokens.model_files import ModelFiles
from training.chat_tokens.templates import ChatTemplate, Message, TemplateProblem

ANSWER = "Qwxz"  # no template has this word
PROBE: list[Message] = [
    {"role": "user", "content": "A"},
    {"role": "assistant", "content": ANSWER},
]
CALL = {"id": "call00001", "type": "function", "function": {"name": ANSWER, "arguments": {}}}
PROBE_CALL: list[Message] = [PROBE[0], {"role": "assistant", "content": "", "tool_calls": [CALL]}]


class Markup:
    """One model's tokenizer, template and control tokens."""

    def __init__(self, files: ModelFiles) -> None:
        self.files = files
        self.control_tokens = ControlTokens(files)
        self._template = ChatTemplate(files.templates, files.named_tokens)

    def render(self, messages: list[Message], *, tools: Any = None, asks: bool = False) -> str:
        """Raises TemplateProblem."""
        return self._template.render(messages, tools=tools, asks=asks)

    def ids(self, text: str) -> list[int]:
        if not text:
            return []
        return self.files.tokenizer.encode(text, add_special_tokens=False).ids

    @cached_property
    def stop_ids(self) -> frozenset[int]:
        """The tokens at which an answer is over: the end of a turn or a call, and of the text."""
        ids = {self.files.token_id("eos_token")}
        _, answer, closing = self.render(PROBE).rpartition(ANSWER)
        ids.update(self._control_ids(closing) if answer else ())
        try:
            _, call, closing = self.render(PROBE_CALL).rpartition(ANSWER)
        except TemplateProblem:  # it has no calls, so no end of one
            return frozenset(ids - {None})
        return frozenset(ids.union(self._control_ids(closing)[-1:] if call else ()) - {None})

    @cached_property
    def empty_thoughts(self) -> str:
        """What the template asks with but does not write into an answered turn ("": nothing)."""
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
        template = self.files.template_text
        return "</think>" in template and "reasoning_content" in template

    def _control_ids(self, text: str) -> list[int]:
        return [one for one in self.ids(text) if one in self.control_tokens.ids]
