"""Rows as our datasets app normalises them: the examples that the trainer is held to as well."""

import io
import json
from pathlib import Path

import pytest

from datasets.formats import detect, normalise, validate

CONTRACT = Path(__file__).resolve().parents[2] / "trainer_image" / "contract" / "rows.v1.jsonl"
EXAMPLES = [json.loads(line) for line in CONTRACT.read_text("utf-8").splitlines()]


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_row_is_seen_as_the_contract_says(example):
    row, format = example["row"], example["format"]
    expected = {key: value for key, value in example.items() if key not in ("row", "format")}

    assert detect(row) == format
    assert normalise(row, format) == expected


@pytest.mark.parametrize("example", EXAMPLES, ids=range(1, len(EXAMPLES) + 1))
def test_row_passes_validation(example):
    line = json.dumps(example["row"]).encode()

    result = validate(io.BytesIO(line), max_row_bytes=len(line))

    assert (result.report["error"], result.format) == (None, example["format"])
