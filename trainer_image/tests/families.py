"""Tiny models of the real classes, one for each family of base models, with random weights.

Each is a checkpoint folder as its publisher would make it: the class that the real checkpoint was
saved from, a tokenizer with the family's own special tokens, and the family's real chat template,
which is read from TRL's package. `initializer_range` 0.08 lets so small a model learn.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

import torch
from in_process import TARGETS
from transformers import (
    Gemma4Config,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    Gemma4UnifiedAudioConfig,
    Gemma4UnifiedConfig,
    Gemma4UnifiedForConditionalGeneration,
    Gemma4UnifiedTextConfig,
    Gemma4UnifiedVisionConfig,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedModel,
    Qwen3_5Config,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
    Qwen3_5VisionConfig,
)

from trainer import tiny_model
from trainer.base_models import BaseModel
from trainer.tiny_model import CONTEXT_LENGTH, INITIALIZER_RANGE, VOCAB_SIZE, build_tokenizer

SEED = 20260102
REVISION = "1"
# Without `language_model` in the name: these classes have no tower beside the language model.
PLAIN_TARGETS = r".*\.layers\.\d+\.(?:self_attn|mlp)\.(?:q|k|v|o|gate|up|down)_proj"
# Three of four layers of Qwen3.5 have linear attention, with projections of other names.
QWEN_TARGETS = (
    r".*\.layers\.\d+\.(?:self_attn|linear_attn|mlp)\."
    r"(?:(?:q|k|v|o|gate|up|down|out)_proj|in_proj_(?:qkv|z|a|b))"
)

CHATML_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
CHATML_NAMES = {"pad_token": "<|endoftext|>", "eos_token": "<|im_end|>"}


@dataclass(frozen=True)
class Family:
    """How one family is built, and what a job on it would be told."""

    name: str
    build: Callable[[], PreTrainedModel]
    chat_template: str  # of TRL's package
    special_tokens: tuple[str, ...]
    named_tokens: dict[str, str]
    end_of_turn: str
    targets: str

    @property
    def base(self) -> BaseModel:
        """As the catalog would name it; it lies in the cache, so nothing is downloaded."""
        return BaseModel(self.name, REVISION, "huggingface", f"tests/{self.name}")


def write_family(family: Family, models_dir: Path) -> Path:
    """The checkpoint of a family in a model cache; made now if it is not there."""
    folder = models_dir / family.name / REVISION
    if folder.is_dir():
        return folder
    template = files("trl") / "chat_templates" / f"{family.chat_template}.jinja"
    build_tokenizer(
        folder,
        special_tokens=family.special_tokens,
        named_tokens=family.named_tokens,
        chat_template=template.read_text(encoding="utf-8"),
    )
    with torch.random.fork_rng():
        torch.manual_seed(SEED)
        model = family.build()
    eos = {family.named_tokens["eos_token"], family.end_of_turn}
    model.generation_config.eos_token_id = sorted(map(family.special_tokens.index, eos))
    model.save_pretrained(folder)
    return folder


def _gemma4_e_type() -> PreTrainedModel:
    """As E2B and E4B: layers that share keys and values, embeddings per layer, both towers."""
    config = tiny_model.tiny_config()
    config.text_config.use_double_wide_mlp = True
    return Gemma4ForConditionalGeneration(config)


GEMMA_TEXT = {
    "vocab_size": VOCAB_SIZE,
    "hidden_size": 96,
    "intermediate_size": 192,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "global_head_dim": 32,
    "layer_types": [*["sliding_attention"] * 3, "full_attention"],
    "sliding_window": 64,
    "max_position_embeddings": CONTEXT_LENGTH,
    "final_logit_softcapping": 30.0,
    "initializer_range": INITIALIZER_RANGE,
    "pad_token_id": 0,
    "eos_token_id": 1,
    "bos_token_id": 2,
}
MEDIA_TOKENS = {
    f"{name}_token_{'index' if name == 'eoa' else 'id'}": tiny_model.SPECIAL_TOKENS.index(token)
    for name, token in {
        "boi": "<|image>",
        "image": "<|image|>",
        "eoi": "<image|>",
        "boa": "<|audio>",
        "audio": "<|audio|>",
        "eoa": "<audio|>",
        "video": "<|video|>",
    }.items()
}


def _gemma4_unified() -> PreTrainedModel:
    """As 12B: no towers, only projections; images would see each other in both directions."""
    text = Gemma4UnifiedTextConfig(
        **GEMMA_TEXT,
        use_bidirectional_attention="vision",
        attention_k_eq_v=True,
        num_global_key_value_heads=1,
    )
    return Gemma4UnifiedForConditionalGeneration(
        Gemma4UnifiedConfig(
            text_config=text,
            vision_config=Gemma4UnifiedVisionConfig(
                patch_size=4, mm_embed_dim=32, mm_posemb_size=16, output_proj_dims=96
            ),
            audio_config=Gemma4UnifiedAudioConfig(audio_embed_dim=32),
            initializer_range=INITIALIZER_RANGE,
            **MEDIA_TOKENS,
        )
    )


def _gemma4_with_vision(**text: object) -> PreTrainedModel:
    towers = tiny_model.tiny_config()
    return Gemma4ForConditionalGeneration(
        Gemma4Config(
            text_config=Gemma4TextConfig(
                **GEMMA_TEXT,
                hidden_size_per_layer_input=0,
                use_bidirectional_attention="vision",
                attention_k_eq_v=True,
                num_global_key_value_heads=1,
                **text,
            ),
            vision_config=copy.deepcopy(towers.vision_config),
            audio_config=None,
            initializer_range=INITIALIZER_RANGE,
            **MEDIA_TOKENS,
        )
    )


def _gemma4_dense() -> PreTrainedModel:
    """As 31B: layers with full attention use their keys as values, and have no v_proj."""
    return _gemma4_with_vision()


def _gemma4_moe() -> PreTrainedModel:
    """As 26B-A4B: a mixture of experts beside the dense layer of each block."""
    return _gemma4_with_vision(
        enable_moe_block=True, num_experts=4, top_k_experts=2, moe_intermediate_size=32
    )


def _qwen3_5() -> PreTrainedModel:
    """As published: with a vision tower, though AutoModelForCausalLM loads the text part only."""
    text = Qwen3_5TextConfig(
        vocab_size=VOCAB_SIZE,
        hidden_size=96,
        intermediate_size=192,
        num_hidden_layers=4,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        linear_key_head_dim=16,
        linear_value_head_dim=16,
        linear_num_key_heads=2,
        linear_num_value_heads=4,
        layer_types=["linear_attention"] * 3 + ["full_attention"],
        max_position_embeddings=CONTEXT_LENGTH,
        tie_word_embeddings=True,
        initializer_range=INITIALIZER_RANGE,
        eos_token_id=CHATML_TOKENS.index("<|im_end|>"),
        pad_token_id=0,
    )
    vision = Qwen3_5VisionConfig(
        depth=1,
        hidden_size=32,
        intermediate_size=64,
        num_heads=2,
        patch_size=8,
        out_hidden_size=96,
        num_position_embeddings=16,
    )
    return Qwen3_5ForConditionalGeneration(
        Qwen3_5Config(text_config=text, vision_config=vision, tie_word_embeddings=True)
    )


def _llama() -> PreTrainedModel:
    """As SmolLM2: a plain Llama that speaks ChatML."""
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCAB_SIZE,
            hidden_size=96,
            intermediate_size=192,
            num_hidden_layers=3,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=CONTEXT_LENGTH,
            tie_word_embeddings=True,
            initializer_range=INITIALIZER_RANGE,
            bos_token_id=None,
            eos_token_id=CHATML_TOKENS.index("<|im_end|>"),
            pad_token_id=0,
        )
    )


def _gemma(name: str, build: Callable[[], PreTrainedModel]) -> Family:
    return Family(
        name=name,
        build=build,
        chat_template="gemma4_v5",
        special_tokens=tiny_model.SPECIAL_TOKENS,
        named_tokens=tiny_model.NAMED_TOKENS,
        end_of_turn=tiny_model.END_OF_TURN,
        targets=TARGETS,
    )


def _chatml(
    name: str,
    build: Callable[[], PreTrainedModel],
    *,
    chat_template: str,
    targets: str = PLAIN_TARGETS,
) -> Family:
    return Family(
        name=name,
        build=build,
        chat_template=chat_template,
        special_tokens=CHATML_TOKENS,
        named_tokens=CHATML_NAMES,
        end_of_turn="<|im_end|>",
        targets=targets,
    )


FAMILIES = {
    family.name: family
    for family in (
        _gemma("gemma4-e", _gemma4_e_type),
        _gemma("gemma4-unified", _gemma4_unified),
        _gemma("gemma4-dense", _gemma4_dense),
        _gemma("gemma4-moe", _gemma4_moe),
        _chatml("qwen3.5", _qwen3_5, chat_template="qwen3_5_nothink", targets=QWEN_TARGETS),
        _chatml("llama", _llama, chat_template="qwen2_5"),
    )
}
