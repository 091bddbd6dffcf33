"""Rows of every format become the one form that the contract shows."""

import json

import pytest

from tests.trainer.jobs import CASES, TRAINER_IMAGE
from trainer.rows import BadRow, detect_format, normalise_row

EXAMPLES = [
    json.loads(line)
    for line in (TRAINER_IMAGE / "contract" / "rows.v1.jsonl").read_text().splitlines()
]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["format"])
def test_rows_are_read_as_in_the_contract(example):
    row = normalise_row(example["row"], example["format"])

    if example["format"] == "text":
        assert row.text == example["text"]
    else:
        assert row.messages == example["messages"]
        assert row.tools == example["tools"]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda e: e["format"])
def test_format_is_seen_from_the_fields(example):
    assert detect_format(example["row"]) == example["format"]


def test_d12_arguments_as_text_and_as_object_are_one_style():
    rows = [json.loads(line) for line in (CASES / "D12.jsonl").read_text().splitlines()]

    normal = [normalise_row(row, "chat") for row in rows]

    calls = [row.messages[1]["tool_calls"][0] for row in normal]
    assert [type(call["function"]["arguments"]) for call in calls] == [dict, dict, dict]
    assert {tuple(call) for call in calls} == {("id", "type", "function")}


@pytest.mark.parametrize(
    ("row", "row_format", "words"),
    [
        ([], "chat", "not a JSON object"),
        ({"messages": []}, "chat", "not a list with entries"),
        ({"messages": [{"role": "bot", "content": "x"}]}, "chat", "unknown role"),
        ({"messages": [{"role": "user", "content": "x"}]}, "chat", "no assistant message"),
        ({"messages": [{"role": "assistant", "content": None}]}, "chat", "content is not text"),
        ({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]}, "chat", "image_url"),
        ({"conversations": [{"from": "bing", "value": "x"}]}, "sharegpt", "unknown 'from'"),
        ({"text": 5}, "text", "text is not text"),
        ({"prompt": "x"}, "prompt_completion", "completion is not text"),
        ({"prompt": "x", "completion": "y"}, "vertex", "unknown format"),
    ],
)
def test_bad_rows_say_what_is_wrong(row, row_format, words):
    with pytest.raises(BadRow, match=words):
        normalise_row(row, row_format)


def test_tool_arguments_that_are_no_json_are_refused():
    row = json.loads((CASES / "D12-badargs.jsonl").read_text())

    with pytest.raises(BadRow, match="arguments is not JSON"):
        normalise_row(row, "chat")
