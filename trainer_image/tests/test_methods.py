"""Which layers are tuned, by which method."""

import pytest
import torch
from in_process import TARGETS, fine_tune
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    Gemma4AudioConfig,
    Gemma4Config,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    Gemma4VisionConfig,
)

from trainer.errors import JobFailed
from trainer.methods import check_targets

PROJECTIONS = {*("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")}


@pytest.fixture
def tiny(tiny_dir):
    return AutoModelForCausalLM.from_pretrained(tiny_dir, dtype=torch.float32)


def e4b_without_weights():
    """The shape of google/gemma-4-E4B-it in its layer types, with fewer layers and no memory."""
    with torch.device("meta"):
        return Gemma4ForConditionalGeneration(
            Gemma4Config(
                text_config=Gemma4TextConfig(num_hidden_layers=12, num_kv_shared_layers=6),
                vision_config=Gemma4VisionConfig(num_hidden_layers=2),
                audio_config=Gemma4AudioConfig(num_hidden_layers=2),
            )
        )


def lora_layers(model):
    peft = get_peft_model(model, LoraConfig(r=4, target_modules=TARGETS, task_type="CAUSAL_LM"))
    return [name for name, module in peft.named_modules() if hasattr(module, "lora_A")]


def test_a10_only_the_language_model_is_tuned(tiny):
    layers = lora_layers(tiny)

    assert layers
    assert all(".language_model.layers." in layer for layer in layers)


def test_a10_a_model_in_the_shape_of_gemma_4_e4b_gets_layers_too():
    layers = lora_layers(e4b_without_weights())

    assert {layer.rsplit(".", 1)[1] for layer in layers} == PROJECTIONS
    assert not [layer for layer in layers if "vision" in layer or "audio" in layer]


def test_a10_patterns_that_reach_a_tower_are_refused(tiny):
    with pytest.raises(JobFailed, match="outside the language model"):
        check_targets(tiny, r".*\.layers\.\d+\.self_attn\.q_proj")


def test_a10_patterns_that_match_nothing_are_refused(tiny):
    with pytest.raises(JobFailed, match="matches no layer"):
        check_targets(tiny, r".*\.attention\.query")


def test_a10_adapters_load_again_and_merge(tiny_dir, tiny, tmp_path):
    tuned = fine_tune(tiny_dir, tmp_path, num_train_steps=8)
    tuned.result.model.save_pretrained(tmp_path / "adapter", save_embedding_layers=False)
    input_ids = torch.tensor([tuned.tokenizer("Which shelf holds the copper bolts?")["input_ids"]])

    with torch.inference_mode():
        plain = tiny(input_ids).logits
        peft = PeftModel.from_pretrained(tiny, tmp_path / "adapter")
        loaded = peft(input_ids).logits
        merged = peft.merge_and_unload(safe_merge=True)(input_ids).logits
        tuned.result.model.eval()
        in_memory = tuned.result.model(input_ids).logits

    assert (loaded - in_memory).abs().max() < 1e-4
    assert (merged - loaded).abs().max() < 1e-3
    assert (loaded - plain).abs().max() > 0.1
