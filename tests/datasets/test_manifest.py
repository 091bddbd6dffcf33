"""dataset.toml, read and written."""

import pytest

from datasets.manifest import Manifest, parse
from gligabao.errors import InvalidRequest


def test_name_and_description_may_be_left_out():
    assert parse(b'file = "a.jsonl"') == Manifest("a.jsonl", "a.jsonl", "")


@pytest.mark.parametrize(
    "text", ['say "hi"', "a\\b", "\u8bad \U0001f4e6", "tab\there", "\x7f", "'''"]
)
def test_what_is_written_is_read_back(text):
    manifest = Manifest("data.jsonl", "Name", text)

    assert parse(manifest.as_toml().encode()) == manifest


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b'file = "a.jsonl"\nkind = "x"', "unknown key 'kind'; known: file, name, description"),
        (b'name = "x"', "no 'file'"),
        (b"file = [1]", "'file' that is not a text"),
        (b'file = "a/b.jsonl"', "is a path"),
        (b"file = ", "not valid TOML"),
        (b"\xff", "not UTF-8"),
    ],
)
def test_unusable_manifest_says_why(content, words):
    with pytest.raises(InvalidRequest, match=words):
        parse(content)
