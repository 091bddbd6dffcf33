"""The full fine-tune: what trains, what is saved, and what of it is served."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from families import FAMILIES
from in_process import CPU, PAIRS, ROWS, encode_rows, fine_tune, make_spec
from safetensors.torch import load_file, save_file
from transformers import AutoModelForCausalLM, AutoTokenizer

from trainer.adapters import AdapterInvalid
from trainer.artifacts import save_model
from trainer.device import Device
from trainer.errors import JobFailed
from trainer.full_models import INDEX, WEIGHTS, is_full_model, load_full_model
from trainer.generation import Generator, Listener, Question
from trainer.methods import TOWER, load_for_training
from trainer.sft import build_trainer
from trainer.totals import RunningTotals, Totals
from trainer.warm_models import WarmModels

STEPS = 25
BF16 = Device("cpu", torch.bfloat16, "a test")


def tune(model_dir, folder, **changed):
    values = {
        "method": "full",
        "learning_rate": 0.003,
        "num_train_steps": STEPS,
        "batch_size": len(ROWS),
        "lr_scheduler": "constant",
    }
    return fine_tune(model_dir, folder, **values | changed)


def save(run, output):
    save_model(output, run.spec, model=run.result.model, tokenizer=run.tokenizer)
    return sorted(path.name for path in output.iterdir())


def logits(model, tokenizer):
    input_ids = torch.tensor([encode_rows(tokenizer).encoded[0].input_ids])
    with torch.inference_mode():
        return model(input_ids).logits


@pytest.fixture(scope="module", params=FAMILIES)
def tuned(request, family_dir, tmp_path_factory):
    family = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(family.name)
    run = tune(family_dir(family.name), folder)
    in_memory = logits(run.result.model.eval(), run.tokenizer)
    return SimpleNamespace(
        family=family,
        base_dir=family_dir(family.name),
        run=run,
        in_memory=in_memory,
        files=save(run, folder / "output"),
        output=folder / "output",
    )


@pytest.fixture(scope="module")
def copy_of_llama(family_dir, tmp_path_factory):
    """Gives folders with an untrained Llama as a full fine-tune would leave it, to damage."""

    def copy() -> Path:
        folder = tmp_path_factory.mktemp("copy") / "output"
        shutil.copytree(family_dir("llama"), folder)
        return folder

    return copy


def test_every_weight_of_the_language_model_trains_and_no_tower(tuned):
    base = AutoModelForCausalLM.from_pretrained(tuned.base_dir, dtype=torch.float32)
    before = dict(base.named_parameters())
    still = {
        name
        for name, after in tuned.run.result.model.named_parameters()
        if torch.equal(after, before[name])
    }

    assert still == {name for name in before if TOWER.search(name)}
    assert tuned.run.reports.losses()[STEPS] < 1


def test_saved_model_is_a_whole_checkpoint_of_allowed_files(tuned):
    assert {WEIGHTS, "config.json", "tokenizer.json", "chat_template.jinja"} <= set(tuned.files)
    assert "adapter_config.json" not in tuned.files
    assert str(tuned.base_dir) not in (tuned.output / "config.json").read_text()


def test_served_model_gives_the_logits_of_the_trained_one(tuned, models_dir):
    models = WarmModels(models_dir, CPU)
    base = tuned.family.base

    served = logits(models.full_model(base, tuned.output).plain, tuned.run.tokenizer)
    plain = logits(models.base_model(base).plain, tuned.run.tokenizer)

    assert (served - tuned.in_memory).abs().max() < 1e-4
    assert (served - plain).abs().max() > 0.1


def test_answers_are_those_that_were_trained(tuned, models_dir):
    question, answer = PAIRS[0]
    told = Generator(models_dir).answer(
        Question(
            base=tuned.family.base,
            messages=[{"role": "user", "content": question}],
            adapter_dir=tuned.output,
            max_tokens=60,
        ),
        Listener(on_text=lambda text: None, on_note=pytest.fail),
    )

    assert (told.response.strip(), told.finish_reason) == (answer, "stop")


@pytest.mark.parametrize("name", ["gemma4-e", "qwen3.5"])
def test_trap_a_resumed_full_fine_tune_loads_its_own_weights(family_dir, tmp_path, name):
    """A checkpoint with other names than the model's would load nothing and say nothing."""
    whole = tune(family_dir(name), tmp_path / "whole", num_train_steps=6)
    tune(family_dir(name), tmp_path / "part", num_train_steps=3, checkpoint_every=3)

    resumed = tune(
        family_dir(name),
        tmp_path / "rest",
        num_train_steps=6,
        resume_from=str(tmp_path / "part" / "checkpoints"),
    )

    rest = {step: loss for step, loss in whole.reports.losses().items() if step > 3}
    assert resumed.reports.losses() == rest


def test_trap_a_checkpoint_that_lacks_weights_is_not_resumed_from_the_base(family_dir, tmp_path):
    """transformers only logs which weights it did not find."""
    spec = make_spec(tmp_path, method="full")
    tokenizer = AutoTokenizer.from_pretrained(family_dir("llama"))
    trainer = build_trainer(
        spec,
        load_for_training(spec, family_dir("llama"), CPU),
        tokenizer=tokenizer,
        examples=encode_rows(tokenizer),
        device=CPU,
        totals=RunningTotals(Totals()),
    )
    weights = load_file(family_dir("llama") / WEIGHTS)
    del weights["model.norm.weight"]
    save_file(weights, tmp_path / WEIGHTS)

    with pytest.raises(JobFailed, match=r"lacks 1 weights.*model\.norm\.weight"):
        trainer._load_from_checkpoint(str(tmp_path))


def test_trap_small_updates_of_bfloat16_weights_are_not_lost(family_dir, tmp_path):
    """A step of 1e-5 is less than bfloat16 can add to most weights: they stay float32."""
    base = family_dir("llama")
    run = tune(base, tmp_path, device=BF16, learning_rate=1e-5, num_train_steps=2)

    before = load_file(base / WEIGHTS)
    after = dict(run.result.model.named_parameters())
    shares = [(after[name] != before[name]).float().mean() for name in after]
    assert {parameter.dtype for parameter in after.values()} == {torch.float32}
    assert min(shares) > 0.5


def test_model_is_handed_over_in_the_type_of_its_base_and_checked_in_it(family_dir, tmp_path):
    base = tmp_path / "base"
    model = AutoModelForCausalLM.from_pretrained(family_dir("llama"), dtype=torch.bfloat16)
    model.save_pretrained(base)
    for file in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja"):
        shutil.copy(family_dir("llama") / file, base)

    run = tune(base, tmp_path, num_train_steps=3)
    in_memory = {name: p.detach().clone() for name, p in run.result.model.named_parameters()}
    save(run, tmp_path / "output")

    saved = load_file(tmp_path / "output" / WEIGHTS)
    assert {tensor.dtype for tensor in saved.values()} == {torch.bfloat16}
    assert json.loads((tmp_path / "output" / "config.json").read_text())["dtype"] == "bfloat16"
    assert all(torch.equal(saved[name].float(), in_memory[name]) for name in saved)


def test_lora_values_of_the_spec_are_ignored(family_dir, tmp_path):
    plain = tune(family_dir("llama"), tmp_path / "a", num_train_steps=1)
    other = tune(
        family_dir("llama"),
        tmp_path / "b",
        num_train_steps=1,
        lora_rank=64,
        lora_target_pattern=r".*no_such_layer",
    )

    assert plain.reports.losses() == other.reports.losses()


def test_several_weight_files_are_served_as_one(family_dir, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(family_dir("llama"))
    model.save_pretrained(tmp_path, max_shard_size="300KB")

    loaded = load_full_model(tmp_path, family_dir("llama"), dtype=torch.float32)

    assert not (tmp_path / WEIGHTS).exists()
    assert is_full_model(tmp_path)
    for name, parameter in model.named_parameters():
        assert torch.equal(loaded.get_parameter(name), parameter)


def test_adapters_are_no_full_models(tmp_path):
    (tmp_path / "adapter_config.json").write_text("{}")
    (tmp_path / WEIGHTS).write_bytes(b"")

    assert not is_full_model(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda weights: weights.pop("model.norm.weight"), "lacks 1 weights.*model.norm.weight"),
        (
            lambda weights: weights.update({"model.norm.weight": torch.ones(5)}),
            "another size.*model.norm.weight",
        ),
        (lambda weights: weights.update({"extra.weight": torch.ones(2)}), "beside.*extra.weight"),
    ],
)
def test_weights_that_do_not_fit_the_base_model_are_refused(
    copy_of_llama, family_dir, change, message
):
    folder = copy_of_llama()
    weights = load_file(folder / WEIGHTS)
    change(weights)
    save_file(weights, folder / WEIGHTS, metadata={"format": "pt"})

    with pytest.raises(AdapterInvalid, match=message):
        load_full_model(folder, family_dir("llama"), dtype=torch.float32)


def test_weights_that_were_cut_off_are_refused(copy_of_llama, family_dir):
    folder = copy_of_llama()
    content = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(content[: len(content) // 2])

    with pytest.raises(AdapterInvalid, match="could not be loaded"):
        load_full_model(folder, family_dir("llama"), dtype=torch.float32)


@pytest.mark.parametrize(
    "index",
    ["no json", "{}", '{"weight_map": {}}', '{"weight_map": {"a": "../../secret.safetensors"}}'],
)
def test_damaged_lists_of_weight_files_are_refused(copy_of_llama, family_dir, index):
    folder = copy_of_llama()
    (folder / WEIGHTS).unlink()
    (folder / INDEX).write_text(index)

    with pytest.raises(AdapterInvalid, match=f"{INDEX} is damaged"):
        load_full_model(folder, family_dir("llama"), dtype=torch.float32)
