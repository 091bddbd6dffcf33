"""How attention is computed: what is fastest for the rows, and the usual one afterwards."""

import pytest
import torch
from families import FAMILIES
from in_process import CPU, encode_rows, fine_tune
from transformers import AutoTokenizer

from trainer.device import Device
from trainer.loading import MAX_PLAIN_TOKENS, attention_for, load_model

BF16_CPU = Device("cpu", torch.bfloat16, "a test")
GPU = Device("cuda", torch.bfloat16, "a test")


def attention_of(model):
    return model.config.get_text_config()._attn_implementation


@pytest.mark.parametrize("name", FAMILIES)
def test_short_rows_are_computed_plainly_with_the_same_result(family_dir, name):
    model_dir = family_dir(name)
    model = load_model(model_dir, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    input_ids = torch.tensor([encode_rows(tokenizer).encoded[0].input_ids])

    with torch.inference_mode():
        usual = model(input_ids, use_cache=False).logits
        with attention_for(model, CPU, longest=MAX_PLAIN_TOKENS):
            inside = attention_of(model)
            plain = model(input_ids, use_cache=False).logits

    assert (inside, attention_of(model)) == ("eager", "sdpa")
    assert (plain - usual).abs().max() < 1e-4


@pytest.mark.parametrize(("device", "longest"), [(CPU, MAX_PLAIN_TOKENS + 1), (GPU, 10)])
def test_long_rows_and_gpus_keep_the_fused_one(tiny_dir, device, longest):
    model = load_model(tiny_dir, dtype=torch.float32)

    with attention_for(model, device, longest=longest):
        assert attention_of(model) == "sdpa"


def test_the_usual_one_is_back_when_the_training_fails(tiny_dir):
    model = load_model(tiny_dir, dtype=torch.float32)

    with pytest.raises(KeyError), attention_for(model, CPU, longest=10):
        raise KeyError

    assert attention_of(model) == "sdpa"


@pytest.mark.parametrize("name", FAMILIES)
def test_in_bfloat16_an_adapter_learns_as_in_float32(family_dir, tmp_path, name):
    family = FAMILIES[name]
    losses = {}
    for device in (CPU, BF16_CPU):
        run = fine_tune(
            family_dir(name),
            tmp_path / str(device.dtype),
            device=device,
            num_train_steps=12,
            batch_size=4,
            lora_target_pattern=family.targets,
        )
        adapter = [p for p in run.result.model.parameters() if p.requires_grad]
        assert {p.dtype for p in adapter} == {torch.float32}
        losses[device.dtype] = run.reports.losses()

    exact, rounded = losses[torch.float32], losses[torch.bfloat16]
    assert rounded[1] == pytest.approx(exact[1], rel=0.01)
    assert rounded[12] < 0.5 * rounded[1]
