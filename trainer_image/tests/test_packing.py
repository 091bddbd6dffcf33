"""Examples that share a row do not see each other, and padding is neither seen nor counted."""

import pytest
import torch
from families import FAMILIES
from in_process import CPU, ROWS, chat_row, encode_rows, fine_tune, make_spec
from transformers import AutoModelForCausalLM, AutoTokenizer
from trl import SFTTrainer

from trainer.label_loss import loss_at_labels
from trainer.loading import attention_by_part
from trainer.methods import load_for_training
from trainer.packing import SAFE_KINDS, count_tokens, why_not_packed, without_mask
from trainer.rendering import IGNORED
from trainer.sft import build_trainer
from trainer.totals import RunningTotals, Totals

MORE_ROWS = [*ROWS, chat_row("Is the shed dry?", "Yes."), chat_row("Who has the van?", "Lena.")]
SAFE = [name for name in FAMILIES if name != "qwen3.5"]
MAX_LENGTH = 200


def make_trainer(model_dir, family, folder, **changed):
    values = {"packing": True, "lora_target_pattern": family.targets, "max_length": MAX_LENGTH}
    spec = make_spec(folder, **values | changed)
    tokenizer = AutoTokenizer.from_pretrained(model_dir)
    return build_trainer(
        spec,
        load_for_training(spec, model_dir, CPU),
        tokenizer=tokenizer,
        examples=encode_rows(tokenizer, MORE_ROWS),
        device=CPU,
        totals=RunningTotals(Totals()),
    )


def split(batch):
    """The input ids (T,) of each example in a packed batch."""
    starts = (batch["position_ids"][0] == 0).nonzero().flatten().tolist()
    ends = [*starts[1:], batch["input_ids"].shape[1]]
    return [batch["input_ids"][0, a:b] for a, b in zip(starts, ends, strict=True)]


def logits(model, **inputs):
    with torch.inference_mode():
        return model(**inputs, use_cache=False).logits[0]


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", SAFE)
def test_packed_examples_have_the_logits_they_have_alone(family_dir, tmp_path, name, attention):
    trainer = make_trainer(family_dir(name), FAMILIES[name], tmp_path, batch_size=2)
    base = trainer.model.get_base_model()
    has_parts = isinstance(attention_by_part(base.config), dict)
    base.set_attn_implementation({"text_config": attention} if has_parts else attention)
    batch = next(iter(trainer.get_train_dataloader()))
    model = trainer.model.eval()

    examples = split(batch)
    inputs = {key: value for key, value in batch.items() if key != "labels"}
    together = logits(model, **inputs)
    alone = torch.cat([logits(model, input_ids=example[None]) for example in examples])

    assert base.config.get_text_config()._attn_implementation == attention
    assert len(examples) > 2
    assert "attention_mask" not in batch
    assert (together - alone).abs().max() < 1e-4


@pytest.mark.parametrize("name", SAFE)
def test_loss_of_a_packed_batch_is_that_of_trl(family_dir, tmp_path, name):
    trainer = make_trainer(family_dir(name), FAMILIES[name], tmp_path, batch_size=2)
    batch = next(iter(trainer.get_train_dataloader()))
    num_items = (batch["labels"][:, 1:] != IGNORED).sum()

    ours, _ = loss_at_labels(trainer.model, dict(batch), num_items)
    trls = SFTTrainer.compute_loss(
        trainer, trainer.model, dict(batch), num_items_in_batch=num_items
    )

    assert abs(ours.item() - trls.item()) < 1e-4


def test_no_example_is_cut_and_no_label_lost(family_dir, tmp_path):
    trainer = make_trainer(family_dir("llama"), FAMILIES["llama"], tmp_path, batch_size=6)
    batch = next(iter(trainer.get_train_dataloader()))
    encoded = encode_rows(trainer.processing_class, MORE_ROWS).encoded

    assert sorted(map(torch.Tensor.tolist, split(batch))) == sorted(e.input_ids for e in encoded)
    assert int((batch["labels"] != IGNORED).sum()) == sum(
        label != IGNORED for example in encoded for label in example.labels
    )


@pytest.mark.parametrize("name", ["gemma4-e", "llama"])
def test_loss_and_tokens_of_a_step_are_those_without_packing(family_dir, tmp_path, name):
    values = {"num_train_steps": 2, "lora_target_pattern": FAMILIES[name].targets}
    plain = fine_tune(family_dir(name), tmp_path / "plain", batch_size=len(ROWS), **values)
    packed = fine_tune(
        family_dir(name), tmp_path / "packed", packing=True, max_length=500, batch_size=1, **values
    )

    assert packed.result.tokens == plain.result.tokens
    for step, loss in plain.reports.losses().items():
        assert packed.reports.losses()[step] == pytest.approx(loss, abs=1e-4)
    assert not packed.reports.of_type("warning")


@pytest.mark.parametrize("name", FAMILIES)
def test_padding_needs_no_mask(family_dir, tmp_path, monkeypatch, name):
    """Loss and gradients of a padded batch are the same, and attention is given no mask.

    Gemma 4's unified class makes one in any case, for images that it might be given.
    """
    seen = []
    attention = torch.nn.functional.scaled_dot_product_attention

    def watched(*args, attn_mask=None, **kwargs):
        seen.append(attn_mask is not None)
        return attention(*args, attn_mask=attn_mask, **kwargs)

    trainer = make_trainer(family_dir(name), FAMILIES[name], tmp_path, packing=False, batch_size=6)
    batch = next(iter(trainer.get_train_dataloader()))
    for weight_name, weight in trainer.model.named_parameters():
        if "lora_B" in weight_name:  # else zero, and with it half of the gradients
            torch.nn.init.normal_(weight, std=0.1)
    monkeypatch.setattr(torch.nn.functional, "scaled_dot_product_attention", watched)

    masked = gradients_of(trainer, dict(batch))
    plain = gradients_of(trainer, without_mask(batch))

    assert not batch["attention_mask"].all()
    half = len(seen) // 2
    assert seen == [True] * half + [name == "gemma4-unified"] * half
    assert plain[0] == pytest.approx(masked[0], abs=1e-5)
    assert (plain[1] - masked[1]).norm() / masked[1].norm() < 1e-5


def gradients_of(trainer, batch):
    """TRL's loss of a batch and its gradients."""
    loss = SFTTrainer.compute_loss(trainer, trainer.model.train(), batch)
    loss.backward()
    wanted = [p for p in trainer.model.parameters() if p.requires_grad]
    flat = torch.cat([p.grad.flatten() for p in wanted])
    trainer.model.zero_grad()
    return loss.item(), flat


def test_padding_of_a_packed_row_is_not_counted():
    position_ids = torch.tensor([[0, 1, 2, 0, 1, 0, 0, 0]])  # two examples, and padding

    assert count_tokens({"position_ids": position_ids}) == 5


def test_trap_linear_attention_sees_the_example_before_it(family_dir):
    """Why Qwen3.5 is not packed: with positions alone its examples see each other, and with the
    borders that TRL gives too, transformers wants GPU kernels that the trainer does not install.
    """
    model = AutoModelForCausalLM.from_pretrained(family_dir("qwen3.5"), dtype=torch.float32).eval()
    one, other = torch.arange(10, 40), torch.arange(50, 70)
    packed = {
        "input_ids": torch.cat([one, other])[None],
        "position_ids": torch.cat([torch.arange(len(one)), torch.arange(len(other))])[None],
    }
    borders = torch.tensor([0, len(one), len(one) + len(other)], dtype=torch.int32)

    alone = logits(model, input_ids=other[None])
    together = logits(model, **packed)[len(one) :]

    assert (together - alone).abs().max() > 0.1
    with pytest.raises(ValueError, match="can't keep packed sequences apart"):
        logits(model, **packed, cu_seq_lens_q=borders)


def test_trap_with_a_cache_packed_examples_see_each_other(family_dir):
    """Why label_loss.py says use_cache=False: the model's own default is to keep one."""
    model = AutoModelForCausalLM.from_pretrained(family_dir("llama"), dtype=torch.float32).eval()
    one, other = torch.arange(10, 40), torch.arange(50, 70)
    packed = {
        "input_ids": torch.cat([one, other])[None],
        "position_ids": torch.cat([torch.arange(len(one)), torch.arange(len(other))])[None],
    }

    alone = logits(model, input_ids=other[None])
    with torch.inference_mode():
        cached = model(**packed, use_cache=True).logits[0]

    assert (cached[len(one) :] - alone).abs().max() > 0.1
    assert (logits(model, **packed)[len(one) :] - alone).abs().max() < 1e-4


def test_packing_is_ignored_aloud_where_it_is_not_safe(family_dir, tmp_path):
    values = {"num_train_steps": 2, "lora_target_pattern": FAMILIES["qwen3.5"].targets}
    plain = fine_tune(family_dir("qwen3.5"), tmp_path / "plain", **values)
    packed = fine_tune(family_dir("qwen3.5"), tmp_path / "packed", packing=True, **values)

    (warning,) = packed.reports.of_type("warning")
    assert warning["code"] == "packing_ignored"
    assert "qwen3_5" in warning["message"]
    assert packed.reports.losses() == plain.reports.losses()


def test_kinds_of_model_that_no_test_here_covers_are_not_packed():
    class Unknown:
        class config:
            model_type = "mamba9"

    assert "mamba9" in why_not_packed(Unknown)
    covered = {FAMILIES[name].build().config.model_type for name in SAFE}
    assert covered == SAFE_KINDS
