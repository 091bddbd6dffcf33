"""Streamed text never shows half a character."""

import json

import pytest
from in_process import CASES
from tokenizers.pre_tokenizers import ByteLevel

from trainer.text_stream import TextStream

GENERATED = json.loads((CASES / "E09.json").read_text())["fake_generation_bytes"]


@pytest.fixture
def stream_bytes(tiny_tokenizer):
    """Streams single bytes; gives the pieces that were shown, and the whole text."""
    characters = sorted(ByteLevel.alphabet())
    id_of_byte = {}
    for character in characters:
        token_id = tiny_tokenizer.convert_tokens_to_ids(character)
        id_of_byte[_byte_of(character)] = token_id

    def stream(data: bytes):
        text_stream = TextStream(tiny_tokenizer)
        pieces = [text_stream.push(id_of_byte[byte]) for byte in data]
        return [*pieces, text_stream.finish()], text_stream.text

    return stream


def _byte_of(character: str) -> int:
    # The byte-level alphabet: printable bytes are themselves, the others moved up from 256.
    kept = [*range(33, 127), *range(161, 173), *range(174, 256)]
    moved = [byte for byte in range(256) if byte not in kept]
    return ord(character) if ord(character) in kept else moved[ord(character) - 256]


@pytest.mark.parametrize(("number", "expected"), [(0, "Hej "), (1, "日")])
def test_e09_incomplete_last_character_is_left_out(stream_bytes, number, expected):
    pieces, text = stream_bytes(bytes.fromhex(GENERATED[number]))

    assert text == expected
    assert "".join(pieces) == expected


def test_whole_characters_come_as_soon_as_they_are_whole(stream_bytes):
    pieces, text = stream_bytes("👋 日本".encode())

    assert text == "👋 日本"
    assert not any("\ufffd" in piece for piece in pieces)
    assert pieces[:5] == ["", "", "", "👋", " "]
