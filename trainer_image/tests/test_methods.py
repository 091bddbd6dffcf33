"""Which layers are tuned, by which method."""

import pytest
import torch
from in_process import CPU, TARGETS, fine_tune, make_spec
from peft import LoraConfig, PeftModel, get_peft_model
from transformers import (
    AutoModelForCausalLM,
    Gemma4AudioConfig,
    Gemma4Config,
    Gemma4ForConditionalGeneration,
    Gemma4TextConfig,
    Gemma4VisionConfig,
)

from trainer import device
from trainer.device import Device, check_method
from trainer.errors import JobFailed
from trainer.methods import (
    check_targets,
    four_bits,
    freeze_towers,
    keep_adapter_exact,
    lora_config,
)

GPU = Device("cuda", torch.bfloat16, "a test")
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


def test_qlora_is_refused_without_a_gpu():
    with pytest.raises(JobFailed, match=r"needs a CUDA GPU.*method lora") as refused:
        check_method("qlora", CPU)

    assert refused.value.reason == "trainer_error"


def test_qlora_is_refused_without_its_package(monkeypatch):
    monkeypatch.setattr(device, "find_spec", lambda name: None)

    with pytest.raises(JobFailed, match=r"bitsandbytes.*requirements-gpu\.txt"):
        check_method("qlora", GPU)


@pytest.mark.parametrize("method", ["lora", "full"])
def test_other_methods_need_neither(monkeypatch, method):
    monkeypatch.setattr(device, "find_spec", lambda name: None)

    check_method(method, CPU)
    check_method(method, GPU)


def test_qlora_keeps_linear_layers_in_nf4_and_computes_in_bfloat16():
    config = four_bits()

    assert config.load_in_4bit
    assert config.bnb_4bit_quant_type == "nf4"
    assert config.bnb_4bit_use_double_quant
    assert config.bnb_4bit_compute_dtype == torch.bfloat16
    assert config.llm_int8_skip_modules is None  # the head and what is tied to it, by default


def test_an_adapter_that_was_cast_to_bfloat16_is_exact_again(tiny):
    peft = get_peft_model(tiny, LoraConfig(r=4, target_modules=TARGETS))
    for parameter in peft.parameters():
        parameter.data = parameter.data.to(torch.bfloat16)

    keep_adapter_exact(peft)

    types = {(p.requires_grad, p.dtype) for p in peft.parameters()}
    assert types == {(True, torch.float32), (False, torch.bfloat16)}


def test_adapter_is_what_the_spec_asks_for(tmp_path):
    config = lora_config(make_spec(tmp_path, lora_rank=3, lora_alpha=5, lora_dropout=0.1))

    assert (config.r, config.lora_alpha, config.lora_dropout) == (3, 5, 0.1)
    assert config.target_modules == TARGETS
    assert not config.use_rslora  # servers scale by alpha / rank


def test_towers_and_what_joins_them_to_the_text_stay_frozen():
    model = e4b_without_weights()
    freeze_towers(model)

    frozen = {name for name, parameter in model.named_parameters() if not parameter.requires_grad}
    assert {name.split(".")[1] for name in frozen} == {
        *("vision_tower", "audio_tower", "embed_vision", "embed_audio"),
    }
    assert all(".language_model." not in name for name in frozen)
