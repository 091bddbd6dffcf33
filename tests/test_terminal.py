"""Text on a terminal cannot steer it."""

import io

import pytest

from gligabao.terminal import plain_console, printable, table_of


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain text, åäö, 漢字, 👩‍🔬", "plain text, åäö, 漢字, 👩‍🔬"),
        ("\x1b[31mred\x1b[0m", "\\x1b[31mred\\x1b[0m"),
        ("\x9b31m", "\\x9b31m"),
        ("a\rb\nc\td\x00", "a\\rb\\nc\\td\\x00"),
        ("gpj.\u202eexe", "gpj.\\u202eexe"),
        ("\u2028\u2066", "\\u2028\\u2066"),
        ("half \ud83d", "half \\ud83d"),
        ("", ""),
    ],
)
def test_controls_are_written_out(text, shown):
    assert printable(text) == shown


def test_kept_characters_stay():
    assert printable("a\n\tb\x1b", keep="\n\t") == "a\n\tb\\x1b"


def test_markup_links_and_emoji_codes_stay_text():
    stream = io.StringIO()
    hostile = "[red]x[/red] [link=http://evil]y[/link] :boom: \x1b]0;title\x07"

    plain_console(stream).print(table_of(["a"], [[hostile]]))

    assert printable(hostile) in stream.getvalue()
    assert "\x1b" not in stream.getvalue()
