"""Streamed text never shows half a character."""

import json

import pytest

from tests.trainer.jobs import CASES

GENERATED = json.loads((CASES / "E09.json").read_text())["fake_generation_bytes"]


@pytest.mark.parametrize(("number", "text"), [(0, "Hej "), (1, "日")])
def test_e09_incomplete_last_character_is_left_out(probe, number, text):
    streamed = probe("stream", data_hex=GENERATED[number])

    assert streamed["text"] == text
    assert "".join(streamed["pieces"]) == text


def test_whole_characters_come_as_soon_as_they_are_whole(probe):
    streamed = probe("stream", data_hex="👋 日本".encode().hex())

    assert streamed["text"] == "👋 日本"
    assert not any("\ufffd" in piece for piece in streamed["pieces"])
    assert streamed["pieces"][:5] == ["", "", "", "👋", " "]
