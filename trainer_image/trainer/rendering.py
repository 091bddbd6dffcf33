"""Messages to text to token ids: one way, for training and for inference alike.

Letters: `T` tokens of one example.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from .rows import Message

IGNORED = -100  # a label that carries no loss, by PyTorch's convention
PROBE = [{"role": "user", "content": "A"}, {"role": "assistant", "content": "B"}]


class TemplateProblem(ValueError):
    """The chat template cannot render these messages, or not in a way that can be masked."""


@dataclass(frozen=True)
class Encoded:
    """One example: input_ids (T,) and labels (T,), IGNORED where there is no loss."""

    input_ids: list[int]
    labels: list[int]


def render_chat(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    *,
    tools: Sequence[dict[str, Any]] | None = None,
    add_generation_prompt: bool = False,
) -> str:
    """The text of a conversation in the model's own markup.

    With `add_generation_prompt` it ends where the model's answer begins.
    """
    if not messages:
        return ""
    try:
        return tokenizer.apply_chat_template(
            list(messages),
            tools=list(tools) if tools else None,
            add_generation_prompt=add_generation_prompt,
            tokenize=False,
        )
    except Exception as error:  # a template may raise anything, even TypeError
        raise TemplateProblem(f"the chat template refuses the messages: {error}") from error


def encode_chat(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    *,
    tools: Sequence[dict[str, Any]] | None = None,
    add_generation_prompt: bool = False,
) -> Encoded:
    """Token ids of a conversation, with a loss on everything the model itself says.

    The text is cut where a model's turn begins and ends, and the pieces are tokenised one by
    one. So no token straddles such a border, and a prompt has the same ids in training and in
    inference. The end-of-turn token is part of the model's turn.
    """
    full = render_chat(
        tokenizer, messages, tools=tools, add_generation_prompt=add_generation_prompt
    )
    input_ids: list[int] = []
    labels: list[int] = []
    end = 0
    for start, stop in _trained_spans(tokenizer, messages, tools, full=full):
        prompt = _token_ids(tokenizer, full[end:start])
        answer = _token_ids(tokenizer, full[start:stop])
        input_ids += prompt + answer
        labels += [IGNORED] * len(prompt) + answer
        end = stop
    rest = _token_ids(tokenizer, full[end:])
    return Encoded(input_ids + rest, labels + [IGNORED] * len(rest))


def encode_text(tokenizer: PreTrainedTokenizerBase, text: str) -> Encoded:
    """Token ids of plain text with a loss on all of it, closed by the end-of-text token."""
    input_ids = [*tokenizer(text)["input_ids"], tokenizer.eos_token_id]
    return Encoded(input_ids, [IGNORED, *input_ids[1:]])  # nothing comes before the first token


def end_of_turn_ids(tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    """The tokens at which an answer is over: the end of a turn, and the end of the text."""
    prompt = render_chat(tokenizer, PROBE[:1], add_generation_prompt=True)
    closing = render_chat(tokenizer, PROBE)[len(prompt) + len(PROBE[1]["content"]) :]
    special = set(tokenizer.all_special_ids)
    closing_ids = {token for token in _token_ids(tokenizer, closing) if token in special}
    return frozenset(closing_ids | {tokenizer.eos_token_id})


def _trained_spans(
    tokenizer: PreTrainedTokenizerBase,
    messages: Sequence[Message],
    tools: Sequence[dict[str, Any]] | None,
    *,
    full: str,
) -> list[tuple[int, int]]:
    """Start and end of each model turn in `full`, without the markup that opens it."""
    spans = []
    for index, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        before = render_chat(tokenizer, messages[:index], tools=tools, add_generation_prompt=True)
        after = render_chat(tokenizer, messages[: index + 1], tools=tools)
        if not after.startswith(before) or not full.startswith(after):
            raise TemplateProblem(
                "the chat template renders a turn differently once more turns follow, "
                "so the model's own words cannot be told from the prompt"
            )
        spans.append((len(before), len(after)))
    return spans


def _token_ids(tokenizer: PreTrainedTokenizerBase, text: str) -> list[int]:
    # The template has written the special tokens already.
    return tokenizer(text, add_special_tokens=False)["input_ids"] if text else []
