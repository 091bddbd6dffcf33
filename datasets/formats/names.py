"""The rule for file names of datasets, the same for uploads and for the jobs that name one."""

from __future__ import annotations

import unicodedata

from gligabao.errors import InvalidRequest

MAX_NAME_BYTES = 200  # in UTF-8; file systems allow 255, and our own suffixes need some
EXTENSION = ".jsonl"  # in lower case only, so that no two names differ by case of the ending


def check_filename(name: str) -> None:
    """Raise InvalidRequest (`bad_name`) unless `name` is a plain `*.jsonl` file name."""
    reason = _refusal(name)
    if reason:
        raise InvalidRequest(f"The file name {_shown(name)} {reason}.", code="bad_name")


def _refusal(name: str) -> str | None:
    if not name:
        return "is empty"
    if "/" in name or "\\" in name:
        return "is a path; send the plain name"
    if any(_is_invisible(character) for character in name):
        return "holds control or direction characters"
    if name[0] in ".-":
        return "starts with a dot or a dash"
    if name[1:2] == ":" and name[0].isascii() and name[0].isalpha():
        return "starts with a drive letter; send the plain name"
    if not name.endswith(EXTENSION):
        return f"does not end in {EXTENSION} (lower case)"
    if len(name.encode("utf-8")) > MAX_NAME_BYTES:
        return f"is longer than {MAX_NAME_BYTES} bytes in UTF-8"
    return None


def _is_invisible(character: str) -> bool:
    """Control, format (direction marks among them), surrogate, line ends, and U+FFFD.

    U+FFFD is what a reader puts where the bytes of a name were not UTF-8. The joiners of emoji
    and of some scripts are format characters too, but change what is seen.
    """
    if character in "\u200c\u200d":
        return False
    return character == "\ufffd" or unicodedata.category(character) in {
        "Cc",
        "Cf",
        "Cs",
        "Zl",
        "Zp",
    }


def _shown(name: str) -> str:
    return repr(name if len(name) <= 60 else f"{name[:60]}...")
