"""Builds `tiny`: a Gemma 4 of the real classes, small enough to train in seconds.

Random weights from a fixed seed, and a tokenizer trained on a text that lies here, so that
every machine builds the same model without any network. It is for tests: it knows nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from transformers import Gemma4Config

SEED = 20260101
VOCAB_SIZE = 768
CONTEXT_LENGTH = 512
HIDDEN_SIZE = 96
# With the usual 0.02 the tied embeddings of so small a model cannot make a sharp distribution,
# and the loss stays above 5 however long it trains.
INITIALIZER_RANGE = 0.08

# The order gives the ids: pad 0, eos 1, bos 2, unk 3, as in Gemma.
SPECIAL_TOKENS = (
    *("<pad>", "<eos>", "<bos>", "<unk>", "<|turn>", "<turn|>"),
    *("<|tool>", "<tool|>", "<|tool_call>", "<tool_call|>", "<|tool_response>", "<tool_response|>"),
    *("<|channel>", "<channel|>", "<|think|>", '<|"|>'),
    *("<|image>", "<|image|>", "<image|>", "<|audio>", "<|audio|>", "<audio|>", "<|video|>"),
)
NAMED_TOKENS = {
    f"{token.strip('<>')}_token": token for token in ("<pad>", "<eos>", "<bos>", "<unk>")
}
END_OF_TURN = "<turn|>"


def build_tiny_model(directory: Path) -> None:
    """Write model and tokenizer in the form of a Hugging Face checkpoint."""
    import torch  # heavy
    from transformers import Gemma4ForConditionalGeneration

    template = Path(__file__).with_name("tiny_chat_template.jinja").read_text(encoding="utf-8")
    build_tokenizer(
        directory,
        special_tokens=SPECIAL_TOKENS,
        named_tokens=NAMED_TOKENS,
        chat_template=template.rstrip("\n"),
    )
    state = torch.random.get_rng_state()
    try:
        torch.manual_seed(SEED)
        model = Gemma4ForConditionalGeneration(tiny_config())
    finally:
        torch.random.set_rng_state(state)
    model.generation_config.eos_token_id = [_id("<eos>"), _id(END_OF_TURN)]
    model.save_pretrained(directory)


def build_tokenizer(
    directory: Path,
    *,
    special_tokens: Sequence[str],
    named_tokens: Mapping[str, str],
    chat_template: str,
) -> None:
    """Write a byte-level tokenizer, trained on the text that lies here.

    `special_tokens` get the first ids, in their order; `named_tokens` says which of them are
    `pad_token`, `eos_token` and so on.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=VOCAB_SIZE,
        special_tokens=list(special_tokens),
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    corpus = Path(__file__).with_name("tiny_corpus.txt").read_text(encoding="utf-8")
    tokenizer.train_from_iterator(corpus.splitlines(), trainer)
    named = set(named_tokens.values())
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        **named_tokens,
        extra_special_tokens=[token for token in special_tokens if token not in named],
        model_max_length=CONTEXT_LENGTH,
        clean_up_tokenization_spaces=False,
    )
    fast.chat_template = chat_template
    fast.save_pretrained(directory)


def tiny_config() -> Gemma4Config:
    """The shape of `tiny`: a Gemma 4 of the E kind, with towers that see and hear."""
    from transformers import Gemma4AudioConfig, Gemma4Config, Gemma4TextConfig, Gemma4VisionConfig

    text = Gemma4TextConfig(
        vocab_size=VOCAB_SIZE,
        vocab_size_per_layer_input=VOCAB_SIZE,
        hidden_size=HIDDEN_SIZE,
        hidden_size_per_layer_input=16,
        intermediate_size=192,
        num_hidden_layers=4,
        num_kv_shared_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=24,
        global_head_dim=24,
        layer_types=["sliding_attention", "full_attention"] * 2,
        sliding_window=128,
        max_position_embeddings=CONTEXT_LENGTH,
        final_logit_softcapping=30.0,
        initializer_range=INITIALIZER_RANGE,
        pad_token_id=_id("<pad>"),
        eos_token_id=_id("<eos>"),
        bos_token_id=_id("<bos>"),
    )
    vision = Gemma4VisionConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        patch_size=8,
        position_embedding_size=64,
    )
    audio = Gemma4AudioConfig(
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        subsampling_conv_channels=[8, 4],
        output_proj_dims=32,
    )
    return Gemma4Config(
        text_config=text,
        vision_config=vision,
        audio_config=audio,
        boi_token_id=_id("<|image>"),
        image_token_id=_id("<|image|>"),
        eoi_token_id=_id("<image|>"),
        boa_token_id=_id("<|audio>"),
        audio_token_id=_id("<|audio|>"),
        eoa_token_index=_id("<audio|>"),
        video_token_id=_id("<|video|>"),
        initializer_range=INITIALIZER_RANGE,
    )


def _id(token: str) -> int:
    return SPECIAL_TOKENS.index(token)
