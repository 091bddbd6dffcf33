"""What fails silently with these libraries: each trap shown, and held shut.

The table in README.md says where the others are tested. A test that shows the trap itself may
fail one day because a library has closed it: then our guard may go.
"""

import json
import math
import shutil

import pytest
import torch
from families import FAMILIES
from in_process import CPU, ROWS, chat_row, encode_rows, fine_tune, make_spec
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma4ForConditionalGeneration,
    Gemma4UnifiedForConditionalGeneration,
)
from trl.chat_template_utils import get_training_chat_template

from trainer.device import Device, set_num_threads
from trainer.errors import JobFailed
from trainer.label_loss import loss_at_labels
from trainer.loading import check_shared_layers, load_model, refuse_other_logits
from trainer.methods import load_for_training

GEMMA = [name for name in FAMILIES if name.startswith("gemma4")]
EIGHT_ROWS = [*ROWS, *(chat_row("Again?", "Yes. " * n) for n in (1, 9, 3, 20))]


def load(folder):
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def one_batch(folder):
    tokenizer = AutoTokenizer.from_pretrained(folder)
    example = encode_rows(tokenizer).encoded[0]
    return {
        "input_ids": torch.tensor([example.input_ids]),
        "labels": torch.tensor([example.labels]),
        "attention_mask": torch.ones(1, len(example.input_ids), dtype=torch.int64),
    }


def test_trap_a_class_that_does_not_fit_the_checkpoint_gets_random_weights(family_dir, tmp_path):
    """transformers only logs that every weight of the text class is missing."""
    folder = shutil.copytree(family_dir("gemma4-e"), tmp_path / "model")
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config["text_config"]))

    assert type(load(folder)).__name__ == "Gemma4ForCausalLM"  # not a word
    with pytest.raises(JobFailed, match=r"weights are missing.*random numbers") as refused:
        load_model(folder, dtype=torch.float32)
    assert refused.value.reason == "model_unavailable"


@pytest.mark.parametrize("weight", ["model.layers.1.mlp.up_proj.weight", "model.norm.weight"])
def test_trap_one_missing_weight_fails_the_job_by_name(family_dir, tmp_path, weight):
    folder = shutil.copytree(family_dir("llama"), tmp_path / "model")
    weights = load_file(folder / "model.safetensors")
    del weights[weight]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})

    with pytest.raises(JobFailed, match=f"1 weights are missing.*{weight}"):
        load_model(folder, dtype=torch.float32)


def test_trap_qwen_is_published_with_a_tower_and_loads_whole_without(family_dir):
    weights = load_file(family_dir("qwen3.5") / "model.safetensors")

    assert [name for name in weights if name.startswith("model.visual.")]
    names = [name for name, _ in load_model(family_dir("qwen3.5"), dtype=CPU.dtype).named_modules()]
    assert not [name for name in names if "visual" in name]


def test_trap_gradient_accumulation_weighs_every_token_the_same(family_dir, tmp_path):
    first = [
        fine_tune(
            family_dir("gemma4-e"),
            tmp_path / f"{batch_size}",
            EIGHT_ROWS,
            batch_size=batch_size,
            gradient_accumulation_steps=len(EIGHT_ROWS) // batch_size,
            num_train_steps=1,
        ).reports.losses()[1]
        for batch_size in (8, 4, 2)
    ]

    # Of these classes the trainer believes, unless told better, that they cannot do it.
    assert not Gemma4ForConditionalGeneration.accepts_loss_kwargs
    assert not Gemma4UnifiedForConditionalGeneration.accepts_loss_kwargs
    assert first == pytest.approx([first[0]] * 3, abs=1e-4)


@pytest.mark.parametrize("name", GEMMA)
def test_trap_trl_cannot_mask_with_the_template_of_gemma_4(family_dir, name):
    """Hence assistant_only_loss is no choice, and rendering.py makes the labels."""
    tokenizer = AutoTokenizer.from_pretrained(family_dir(name))

    with pytest.raises(ValueError, match="not training-compatible"):
        get_training_chat_template(tokenizer)


def gradients(model, batch, *, use_reentrant=None):
    model.train().zero_grad()
    if use_reentrant is not None:
        model.gradient_checkpointing_enable({"use_reentrant": use_reentrant})
        model.enable_input_require_grads()
    loss, _ = loss_at_labels(model, batch)
    loss.backward()
    return torch.cat([p.grad.flatten() for p in model.parameters() if p.requires_grad])


def test_trap_reentrant_checkpointing_is_wrong_where_layers_share_keys(family_dir, tmp_path):
    folder = family_dir("gemma4-e")

    def fresh():
        torch.manual_seed(1)
        model = load_for_training(make_spec(tmp_path), folder, CPU)
        for name, weight in model.named_parameters():
            if "lora_B" in name:  # else zero, and with it half of the gradients
                torch.nn.init.normal_(weight, std=0.1)
        return model

    batch = one_batch(folder)
    exact = gradients(fresh(), batch)
    ours = gradients(fresh(), batch, use_reentrant=False)
    reentrant = gradients(fresh(), batch, use_reentrant=True)

    assert (ours - exact).norm() / exact.norm() < 1e-5
    assert (reentrant - exact).norm() / exact.norm() > 0.05


def test_trap_names_instead_of_a_pattern_reach_layers_that_peft_cannot_adapt(family_dir):
    with pytest.raises(ValueError, match="Gemma4ClippableLinear"):
        get_peft_model(load(family_dir("gemma4-e")), LoraConfig(target_modules=["q_proj"]))


def test_trap_one_attention_for_all_parts_stops_an_audio_tower(family_dir):
    with pytest.raises(ValueError, match="Gemma4AudioModel does not support"):
        AutoModelForCausalLM.from_pretrained(family_dir("gemma4-e"), attn_implementation="sdpa")


def test_trap_weights_are_loaded_in_the_type_of_the_device(family_dir, tmp_path):
    """Trainers that load a path by themselves load float32: twice the memory."""
    device = Device("cpu", torch.bfloat16, "a test")
    model = load_for_training(make_spec(tmp_path), family_dir("gemma4-e"), device)

    trained = {p.dtype for p in model.parameters() if p.requires_grad}
    frozen = {p.dtype for p in model.parameters() if not p.requires_grad}
    assert (trained, frozen) == ({torch.float32}, {torch.bfloat16})


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_trap_shared_keys_and_values_need_no_cache(family_dir, dtype):
    check_shared_layers(load_model(family_dir("gemma4-e"), dtype=dtype))


def test_trap_a_model_that_needs_its_cache_is_refused(family_dir, tmp_path, monkeypatch):
    """As transformers before 5.5.2 computed them: other logits without a cache, as in training."""
    right = Gemma4ForConditionalGeneration.forward

    def wrong(self, *args, use_cache=True, **kwargs):
        output = right(self, *args, use_cache=use_cache, **kwargs)
        return output if use_cache else output | {"logits": output.logits + 0.1}

    monkeypatch.setattr(Gemma4ForConditionalGeneration, "forward", wrong)

    with pytest.raises(JobFailed, match=r"differ by 0\.1"):
        load_for_training(make_spec(tmp_path), family_dir("gemma4-e"), CPU)


def test_trap_logits_that_are_no_numbers_are_not_equal():
    with pytest.raises(JobFailed, match="differ by nan"):
        refuse_other_logits(torch.zeros(3), torch.tensor([0.0, math.nan, 0.0]))


@pytest.mark.parametrize("name", GEMMA)
def test_trap_no_media_token_types_are_needed_for_text(family_dir, name):
    model, batch = load(family_dir(name)).train(), one_batch(family_dir(name))
    types = torch.zeros_like(batch["input_ids"])

    without = model(**batch).loss
    with_types = model(**batch, mm_token_type_ids=types).loss

    assert without.item() == pytest.approx(with_types.item(), abs=1e-6)


def test_trap_tiny_models_get_one_thread(monkeypatch):
    """Two threads of a tiny model wait for each other: seen were 67.7 s instead of 5.3."""
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    torch.set_num_threads(2)

    assert set_num_threads(1_000_000) == 1
