"""One question to one answer, with the prompt rendered as in training."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig, StoppingCriteria, StoppingCriteriaList
from transformers.generation.streamers import BaseStreamer

from .base_models import BaseModel
from .device import pick_device
from .full_models import is_full_model
from .rendering import ChatEncoder, TemplateProblem
from .rows import BadRow, normalise_messages
from .text_stream import TextStream
from .warm_models import LoadedModel, WarmModels

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

NO_TOKENIZER_NOTE = (
    "The model came without a tokenizer and chat template: its base model's are used."
)


class RequestRefused(Exception):
    """A request that cannot be answered; `code` is a word of the protocol."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


@dataclass(frozen=True)
class Question:
    """What to answer, and with which weights: without `adapter_dir` with the base model's.

    That folder holds an adapter, or a fully tuned model.
    """

    base: BaseModel
    messages: Sequence[dict[str, Any]]
    adapter_dir: Path | None = None
    max_tokens: int = 256
    temperature: float = 0.0  # 0: always the likeliest token


@dataclass(frozen=True)
class Answer:
    """`finish_reason` is "stop" (the model ended its turn) or "length"."""

    response: str
    finish_reason: str
    num_tokens: int


@dataclass(frozen=True)
class Listener:
    """What the asker gets while the answer is made, and whether it still listens."""

    on_text: Callable[[str], None]
    on_note: Callable[[str], None]
    is_gone: Callable[[], bool] = lambda: False


class Generator:
    """Answers questions one at a time; models stay warm in between."""

    def __init__(self, models_dir: Path) -> None:
        self._device = pick_device()
        self._models = WarmModels(models_dir, self._device)

    def answer(self, question: Question, listener: Listener) -> Answer:
        """Generate one answer.

        Raises RequestRefused, AdapterInvalid, or JobFailed with reason `model_unavailable`.
        """
        loaded, adapter = self._load(question)
        tokenizer, is_own = loaded.tokenizer_of(adapter)
        if not is_own:
            listener.on_note(NO_TOKENIZER_NOTE)
        encoder = ChatEncoder(tokenizer)
        prompt_ids = encode_prompt(encoder, question.messages)
        room = loaded.context_length - len(prompt_ids)
        if room < 1:
            raise RequestRefused(
                "prompt_too_long",
                f"The prompt has {len(prompt_ids)} tokens, and the model has room for "
                f"{loaded.context_length} with its answer.",
            )
        streamer = _PieceStreamer(tokenizer, listener, stop_ids=stop_ids(loaded, encoder))
        input_ids = torch.tensor([prompt_ids], device=self._device.name)  # (1, T) int64
        with loaded.weights(adapter) as model, torch.inference_mode():
            model.generate(
                input_ids=input_ids,
                attention_mask=torch.ones_like(input_ids),
                generation_config=_generation_config(question, streamer.stop_ids, room=room),
                streamer=streamer,
                stopping_criteria=StoppingCriteriaList([_ListenerGone(listener)]),
            )
        return streamer.answer()

    def _load(self, question: Question) -> tuple[LoadedModel, str | None]:
        """The model to ask, and which of its adapters: None for its own weights."""
        tuned = question.adapter_dir
        if tuned is None:
            return self._models.base_model(question.base), None
        if is_full_model(tuned):
            return self._models.full_model(question.base, tuned), None
        adapter = self._models.adapter(question.base, tuned)
        return self._models.base_model(question.base), adapter


def encode_prompt(encoder: ChatEncoder, messages: Sequence[dict[str, Any]]) -> list[int]:
    """The token ids up to where the answer begins. Raises RequestRefused."""
    try:
        return encoder.prompt_ids(normalise_messages(list(messages)))
    except (BadRow, TemplateProblem) as error:
        raise RequestRefused(
            "invalid_messages", f"The messages cannot be used: {error}."
        ) from error


def stop_ids(loaded: LoadedModel, encoder: ChatEncoder) -> frozenset[int]:
    """The tokens that end an answer: of the template, the tokenizer and the model."""
    own = loaded.plain.generation_config.eos_token_id
    own_ids = own if isinstance(own, list) else [own] if own is not None else []
    return encoder.stop_ids | frozenset(own_ids)


def _generation_config(
    question: Question, stop_ids: frozenset[int], *, room: int
) -> GenerationConfig:
    sampling = {"temperature": question.temperature, "top_k": 0} if question.temperature else {}
    return GenerationConfig(
        max_new_tokens=min(question.max_tokens, room),
        do_sample=bool(sampling),
        eos_token_id=sorted(stop_ids),
        pad_token_id=min(stop_ids),  # one row: nothing is ever padded
        **sampling,
    )


class _PieceStreamer(BaseStreamer):
    """Takes tokens from `generate` and gives pieces of text to the listener."""

    def __init__(
        self, tokenizer: PreTrainedTokenizerBase, listener: Listener, *, stop_ids: frozenset[int]
    ) -> None:
        self.stop_ids = stop_ids
        self._listener = listener
        self._stream = TextStream(tokenizer)
        self._num_tokens = 0
        self._is_stopped = False
        self._has_seen_prompt = False

    def put(self, value: torch.Tensor) -> None:
        """Prompt ids (1, T) at first, then one id (1,) for each generated token."""
        if not self._has_seen_prompt:
            self._has_seen_prompt = True
            return
        token_id = int(value.item())
        self._num_tokens += 1
        if token_id in self.stop_ids:
            self._is_stopped = True
        else:
            self._say(self._stream.push(token_id))

    def end(self) -> None:
        self._say(self._stream.finish())

    def answer(self) -> Answer:
        """The whole answer, once `generate` has returned."""
        reason = "stop" if self._is_stopped else "length"
        return Answer(self._stream.text, reason, self._num_tokens)

    def _say(self, piece: str) -> None:
        if piece:
            self._listener.on_text(piece)


class _ListenerGone(StoppingCriteria):
    """Ends the generation when nobody waits for the answer any more."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __call__(
        self, input_ids: torch.Tensor, scores: torch.Tensor, **kwargs: Any
    ) -> torch.Tensor:
        return torch.full((input_ids.shape[0],), self._listener.is_gone(), dtype=torch.bool)
