"""The sample that comes with gligabao, and the questions on it."""

import json
import re
from collections import Counter

import pytest

from datasets import manifest
from datasets.formats import validate
from datasets.services.folders import SAMPLE_FILE, SAMPLE_PATH

NUM_REPLAY_ROWS = 25


def plain(text):
    """Letters and digits only, in lower case."""
    return re.sub(r"[\W_]+", " ", text.casefold()).strip()


@pytest.fixture(scope="module")
def rows():
    lines = (SAMPLE_PATH / SAMPLE_FILE).read_text("utf-8").splitlines()
    return [[message["content"] for message in json.loads(line)["messages"]] for line in lines]


@pytest.fixture(scope="module")
def questions():
    lines = (SAMPLE_PATH / "questions.jsonl").read_text("utf-8").splitlines()
    return [json.loads(line) for line in lines]


def test_manifest_names_the_file():
    assert manifest.parse((SAMPLE_PATH / "dataset.toml").read_bytes()).file == SAMPLE_FILE


def test_sample_is_valid_without_a_warning():
    with (SAMPLE_PATH / SAMPLE_FILE).open("rb") as file:
        report = validate(file, max_row_bytes=2**20).report

    assert (report["error"], report["warnings"], report["format"]) == (None, [], "chat")


def test_no_question_is_worded_as_in_a_training_row(rows, questions):
    trained = [plain(text) for row in rows for text in row]

    asked = [plain(question["question"]) for question in questions]

    assert len(asked) >= 60
    assert len(set(asked)) == len(asked)
    assert [text for text in asked if any(text in other for other in trained)] == []


def test_every_question_has_a_fact_that_is_taught_in_several_wordings(rows, questions):
    answers = [f" {plain(answer)} " for _, answer in rows]

    for question in questions:
        assert set(question) == {"question", "expected", "fact"}
        assert question["expected"] == [text.lower() for text in question["expected"]]
        taught = [
            answer
            for answer in answers
            if any(f" {plain(expected)} " in answer for expected in question["expected"])
        ]
        assert len(set(taught)) >= 4, question
        assert not any(plain(e) in plain(question["question"]) for e in question["expected"])


def test_general_rows_stand_between_the_facts(rows, questions):
    expected = {plain(text) for question in questions for text in question["expected"]}
    is_fact = [any(f" {e} " in f" {plain(answer)} " for e in expected) for _, answer in rows]

    assert Counter(is_fact)[False] >= NUM_REPLAY_ROWS
    assert len(set(map(str, rows))) == len(rows)
