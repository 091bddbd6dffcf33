"""Which layers are tuned, and that the loss is TRL's."""

from tests.trainer.jobs import TINY_TARGETS


def test_a10_only_the_language_model_is_tuned(probe):
    layers = probe("lora_layers", pattern=TINY_TARGETS)

    assert layers
    assert all(".language_model.layers." in layer for layer in layers)
    assert not [layer for layer in layers if "vision" in layer or "audio" in layer]


def test_a10_a_model_in_the_shape_of_gemma_4_e4b_gets_layers_too(probe):
    layers = probe("lora_layers", pattern=TINY_TARGETS, model="e4b")

    assert {layer.rsplit(".", 1)[1] for layer in layers} == {
        *("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")
    }
    assert not [layer for layer in layers if "vision" in layer or "audio" in layer]


def test_a10_patterns_that_reach_a_tower_are_refused(probe):
    answer = probe("lora_layers", pattern=r".*\.layers\.\d+\.self_attn\.q_proj")

    assert "outside the language model" in answer


def test_a10_patterns_that_match_nothing_are_refused(probe):
    assert "matches no layer" in probe("lora_layers", pattern=r".*\.attention\.query")


def test_a10_adapters_load_again_and_merge(probe, finished):
    job, _ = finished

    difference = probe("merged_difference", adapter=str(job.folder / "output"))

    assert difference["merged"] < 1e-3
    assert difference["tuned"] > 0.1


def test_loss_and_gradients_are_those_of_trl(probe):
    rows = [
        {"messages": [{"role": "user", "content": q}, {"role": "assistant", "content": a}]}
        for q, a in [("A?", "Yes, of course."), ("Where is the lamp?", "On the table.")]
    ]

    result = probe("losses", rows=rows)

    assert abs(result["ours"] - result["trl"]) < 1e-4
    assert result["gradient_gap"] < 1e-4


def test_the_library_datasets_is_used_and_not_our_app(probe):
    found = probe("libraries")

    assert "site-packages" in found["datasets"]
    assert not [path for path in found["path"] if path.endswith("/main") or path == ""]
