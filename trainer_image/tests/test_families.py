"""The whole life of an adapter in each family: masked, trained, saved, served."""

from types import SimpleNamespace

import pytest
import torch
from families import FAMILIES
from in_process import CPU, PAIRS, ROWS, encode_rows, fine_tune

from trainer.artifacts import save_model
from trainer.generation import Generator, Listener, Question
from trainer.loading import load_model
from trainer.rendering import IGNORED
from trainer.warm_models import WarmModels

STEPS = 50
PROJECTIONS = {*("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")}
LINEAR_ATTENTION = {"in_proj_qkv", "in_proj_z", "in_proj_a", "in_proj_b", "out_proj"}
CLASSES = {
    "gemma4-e": "Gemma4ForConditionalGeneration",
    "gemma4-unified": "Gemma4UnifiedForConditionalGeneration",
    "gemma4-dense": "Gemma4ForConditionalGeneration",
    "gemma4-moe": "Gemma4ForConditionalGeneration",
    "qwen3.5": "Qwen3_5ForCausalLM",
    "llama": "LlamaForCausalLM",
}


@pytest.fixture(scope="module", params=FAMILIES)
def tuned(request, family_dir, tmp_path_factory):
    """An adapter that knows the answers, in memory and as files."""
    family = FAMILIES[request.param]
    folder = tmp_path_factory.mktemp(family.name)
    model_dir = family_dir(family.name)
    run = fine_tune(
        model_dir,
        folder,
        num_train_steps=STEPS,
        batch_size=len(ROWS),
        lr_scheduler="constant",
        lora_target_pattern=family.targets,
    )
    save_model(folder / "output", run.spec, model=run.result.model, tokenizer=run.tokenizer)
    return SimpleNamespace(
        family=family,
        model_dir=model_dir,
        model=run.result.model.eval(),
        tokenizer=run.tokenizer,
        losses=run.reports.losses(),
        output=folder / "output",
    )


@pytest.fixture(scope="module")
def generator(models_dir):
    return Generator(models_dir)


def ask(generator, tuned, question, adapter_dir):
    return generator.answer(
        Question(
            base=tuned.family.base,
            messages=[{"role": "user", "content": question}],
            adapter_dir=adapter_dir,
            max_tokens=60,
        ),
        Listener(on_text=lambda text: None, on_note=lambda text: None),
    )


def logits(model, tokenizer):
    input_ids = torch.tensor([encode_rows(tokenizer).encoded[0].input_ids])
    with torch.inference_mode():
        return model(input_ids).logits


def test_trap_the_class_is_the_one_whose_weights_the_checkpoint_has(tuned):
    assert type(tuned.model.get_base_model()).__name__ == CLASSES[tuned.family.name]


def test_trap_the_end_of_turn_is_trained_without_markers_in_the_template(tuned):
    example = encode_rows(tuned.tokenizer).encoded[0]
    spoken = [label for label in example.labels if label != IGNORED]

    text = tuned.tokenizer.decode(spoken)
    assert text.strip() == PAIRS[0][1] + tuned.family.end_of_turn
    assert example.input_ids[example.labels.index(spoken[0]) :][: len(spoken)] == spoken


def test_training_lowers_the_loss(tuned):
    assert tuned.losses[1] > 5
    assert tuned.losses[STEPS] < 1


def test_trap_only_linear_layers_of_the_language_model_are_adapted(tuned):
    adapted = [name for name, module in tuned.model.named_modules() if hasattr(module, "lora_A")]

    assert {name.rsplit(".", 1)[1] for name in adapted} <= PROJECTIONS | LINEAR_ATTENTION
    assert all(".layers." in name for name in adapted)
    assert not [name for name in adapted if "vision" in name or "audio" in name]
    trained = [name for name, p in tuned.model.named_parameters() if p.requires_grad]
    assert all(".lora_" in name for name in trained)


def test_saved_adapter_gives_the_logits_of_the_trained_model(tuned, models_dir):
    models = WarmModels(models_dir, CPU)
    base = tuned.family.base

    plain = logits(models.base_model(base).plain, tuned.tokenizer)
    adapter = models.adapter(base, tuned.output)
    with models.base_model(base).weights(adapter) as served:
        loaded = logits(served, tuned.tokenizer)

    assert (loaded - logits(tuned.model, tuned.tokenizer)).abs().max() < 1e-4
    assert (loaded - plain).abs().max() > 0.1


def test_answers_are_those_that_were_trained_and_end_with_their_turn(tuned, generator):
    for question, answer in PAIRS:
        told = ask(generator, tuned, question, tuned.output)
        assert (told.response.strip(), told.finish_reason) == (answer, "stop")

    assert ask(generator, tuned, PAIRS[0][0], None).response.strip() != PAIRS[0][1]


@pytest.mark.parametrize("name", FAMILIES)
def test_trap_each_part_of_a_model_has_an_attention_that_it_knows(family_dir, name):
    """One name for all parts would stop Gemma 4's audio tower from loading."""
    model = load_model(family_dir(name), dtype=torch.float32)

    assert model.config.get_text_config()._attn_implementation == "sdpa"
    if getattr(model.config, "audio_config", None):
        assert model.config.audio_config._attn_implementation != "flash_attention_2"
