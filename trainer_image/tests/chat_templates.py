"""The chat templates of model families as TRL ships them, with tokenizers made for them."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import trl
from transformers import AddedToken, AutoTokenizer

from trainer.rendering import IGNORED
from trainer.tiny_model import SPECIAL_TOKENS, build_tokenizer

FOLDER = Path(trl.__file__).parent / "chat_templates"


@dataclass(frozen=True)
class Markup:
    """What a family's tokenizer knows beside its words."""

    end_of_turn: str
    special: tuple[str, ...] = ()
    added: tuple[str, ...] = ()  # tokens of their own too, but not special ones
    bos: str = "<bos>"
    eos: str = "<eos>"


GEMMA_4 = Markup("<turn|>", SPECIAL_TOKENS)
GEMMA = Markup("<end_of_turn>", ("<start_of_turn>", "<end_of_turn>"))
CHATML = Markup(
    "<|im_end|>",
    ("<|im_start|>", "<|im_end|>"),
    (
        *("<think>", "</think>", "<tool_call>", "</tool_call>"),
        *("<tool_response>", "</tool_response>"),
    ),
    eos="<|im_end|>",
)
LLAMA_3 = Markup(
    "<|eot_id|>",
    ("<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"),
    bos="<|begin_of_text|>",
    eos="<|end_of_text|>",
)
PHI = Markup("<|end|>", ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>"))
TEMPLATES = {
    **dict.fromkeys(("gemma4", "gemma4_v2", "gemma4_v3", "gemma4_v4", "gemma4_v5"), GEMMA_4),
    **dict.fromkeys(("gemma", "gemma3"), GEMMA),
    **dict.fromkeys(("qwen2_5", "qwen3", "qwen3_instruct_2507", "qwen3_5_think"), CHATML),
    **dict.fromkeys(("qwen3_5_nothink", "qwen3_6", "qwen3_8"), CHATML),
    **dict.fromkeys(("llama3", "llama3_1", "llama3_2"), LLAMA_3),
    **dict.fromkeys(("phi3", "phi3_5"), PHI),
}
WITHOUT_SYSTEM = {"gemma"}
WITH_TOOLS = [
    name for name, markup in TEMPLATES.items() if markup in (GEMMA_4, CHATML) or "llama3_" in name
]


@cache
def tokenizer_of(name: str):
    """A byte-level tokenizer with a template and with its family's special tokens."""
    return build(TEMPLATES[name], source_of(name))


def source_of(name: str) -> str:
    return (FOLDER / f"{name}.jinja").read_text(encoding="utf-8")


def build(markup: Markup, source: str):
    """A tokenizer with this template."""
    special = dict.fromkeys(("<pad>", markup.bos, markup.eos, *markup.special))
    with tempfile.TemporaryDirectory() as folder:
        build_tokenizer(
            Path(folder),
            special_tokens=list(special),
            named_tokens={
                "pad_token": "<pad>",
                "bos_token": markup.bos,
                "eos_token": markup.eos,
            },
            chat_template=source,
        )
        tokenizer = AutoTokenizer.from_pretrained(folder)
    tokenizer.add_tokens([AddedToken(token, special=False) for token in markup.added])
    return tokenizer


def trained_spans(tokenizer, example) -> list[str]:
    """The texts that carry loss."""
    spans: list[list[int]] = [[]]
    for label in example.labels:
        if label != IGNORED:
            spans[-1].append(label)
        elif spans[-1]:
            spans.append([])
    return [tokenizer.decode(span) for span in spans if span]
