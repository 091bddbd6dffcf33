"""What the validator says before a job of the files that a trainer must never train on quietly.

`trainer_image/contract/bad_rows.v1.jsonl` has them, with what both sides say: the trainer is held
to the same list, for files that get through.
"""

import io
import json
from pathlib import Path

import pytest

from datasets.formats import validate

CONTRACT = Path(__file__).resolve().parents[2] / "trainer_image" / "contract"
FILES = [json.loads(line) for line in (CONTRACT / "bad_rows.v1.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("file", FILES, ids=lambda file: file["name"])
def test_validator_names_the_problem_and_its_line(file):
    content = bytes.fromhex(file["hex"]) if "hex" in file else file["text"].encode()

    report = validate(io.BytesIO(content), max_row_bytes=100_000).report

    errors = [(error["code"], error["line"]) for error in report["errors"]]
    assert errors == ([(file["validator"], file["line"])] if file["validator"] else [])
    if "warning" in file:
        assert file["warning"] in {warning["code"] for warning in report["warnings"]}
