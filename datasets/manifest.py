"""`dataset.toml`: which file of a folder is a dataset, and what it is called. Pure."""

from __future__ import annotations

import json
import tomllib
from dataclasses import dataclass

from datasets.formats import check_filename
from gligabao.errors import InvalidRequest

FILE_NAME = "dataset.toml"
BAD_MANIFEST = "bad_manifest"  # the code of a manifest that cannot be used
KEYS = ("file", "name", "description")
MAX_BYTES = 64 * 1024
MAX_NAME = 200  # characters
MAX_DESCRIPTION = 4000


@dataclass(frozen=True)
class Manifest:
    file: str
    name: str
    description: str

    def as_toml(self) -> str:
        """Text that `parse` reads back as the same manifest."""
        return "".join(f"{key} = {_quoted(getattr(self, key))}\n" for key in KEYS)


def parse(content: bytes) -> Manifest:
    """Read a manifest. Raises InvalidRequest (`bad_manifest`, `bad_name`, ...) with the reason."""
    if len(content) > MAX_BYTES:
        raise _invalid(f"is larger than {MAX_BYTES} bytes")
    try:
        values = tomllib.loads(content.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise _invalid("is not UTF-8") from error
    except (tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise _invalid(f"is not valid TOML: {error}") from error
    unknown = [key for key in values if key not in KEYS]
    if unknown:
        raise _invalid(f"has the unknown key {unknown[0][:60]!r}; known: {', '.join(KEYS)}")
    for key, value in values.items():
        if not isinstance(value, str):
            raise _invalid(f"has a '{key}' that is not a text")
    if "file" not in values:
        raise _invalid("has no 'file'")
    check_filename(values["file"])
    name = values.get("name") or values["file"]
    description = values.get("description", "")
    check_texts(name, description)
    return Manifest(values["file"], name, description)


def check_texts(name: str, description: str) -> None:
    """Raise InvalidRequest unless both can be stored and shown."""
    for field, text, limit in (
        ("name", name, MAX_NAME),
        ("description", description, MAX_DESCRIPTION),
    ):
        if len(text) > limit:
            raise InvalidRequest(
                f"The {field} is longer than {limit} characters.", code=f"bad_{field}"
            )
        if "\0" in text or (field == "name" and not text.isprintable()):
            raise InvalidRequest(f"The {field} holds control characters.", code=f"bad_{field}")


def _invalid(reason: str) -> InvalidRequest:
    return InvalidRequest(f"{FILE_NAME} {reason}.", code=BAD_MANIFEST)


def _quoted(text: str) -> str:
    # A JSON text is a TOML text, but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
