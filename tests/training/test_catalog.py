"""The catalog: what a wrong entry says, and what each method starts from."""

import pytest

from training.catalog import CATALOG_FILE, CatalogError, base_model, read_catalog

TEXT = CATALOG_FILE.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('methods = ["lora", "full"]', 'methods = ["magic"]', "tiny: methods must be some of"),
        ("full = 1, ", "", "tiny: vram_floors.full must be a positive number"),
        ("lora_rank = 8\n", "", "tiny: hyperparams has no lora_rank, which method lora needs"),
        ("lora_rank = 8", "lora_rank = 0", "tiny: hyperparams is wrong: hyperparams.lora_rank"),
        ("learning_rate = 0.001", "momentum = 1", "tiny: method_hyperparams.full is wrong"),
        ("method_hyperparams.full", "method_hyperparams.qlora", "qlora is of a method that"),
        ("cpu = true", "gpu = true", "tiny: cpu is missing"),
        ('id = "tiny"', 'id = "smollm2-135m"', "id 'smollm2-135m' stands twice"),
        ("[[base_models]]", "[[more]]\n[[base_models]]", "unknown table 'more'"),
        ('id = "tiny"', "id = tiny", "not TOML"),
    ],
)
def test_wrong_entry_is_named(old, new, words):
    assert old in TEXT

    with pytest.raises(CatalogError, match=words.replace(".", r"\.")):
        read_catalog(TEXT.replace(old, new, 1))


@pytest.mark.parametrize("id", ["tiny", "smollm2-135m"])
def test_full_fine_tune_starts_from_a_lower_rate(id):
    entry = base_model(id)

    assert entry.defaults_of("full")["learning_rate"] < entry.defaults_of("lora")["learning_rate"]
    assert entry.defaults_of("full")["max_length"] == entry.defaults_of("lora")["max_length"]
