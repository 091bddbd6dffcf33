"""Secrets that an installation makes for itself, kept as files that only its user can read."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from django.core.exceptions import ImproperlyConfigured


def secret_file(path: Path, make: Callable[[], str]) -> str:
    """Return the secret that `path` holds; the first process to ask makes it.

    Two processes that start at once get the same value: the file appears complete, by a
    link that fails when the name is taken. Raises ImproperlyConfigured.
    """
    try:
        return _read_or_make(path, make)
    except OSError as error:
        raise ImproperlyConfigured(
            f"{path} can be neither read nor made: {error.strerror}. "
            "Set GLIGABAO_DATA_DIR to a folder that you can write."
        ) from error


def _read_or_make(path: Path, make: Callable[[], str]) -> str:
    try:
        return path.read_text(encoding="ascii").strip()
    except FileNotFoundError:
        pass
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(make())
    try:
        os.link(draft, path)
    except FileExistsError:
        pass  # another process was first; its value counts
    finally:
        draft.unlink()
    return path.read_text(encoding="ascii").strip()
