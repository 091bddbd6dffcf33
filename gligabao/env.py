"""Typed readers of environment variables. A bad value stops the start with the variable's name."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off"})


def env_str(name: str, *, default: str = "") -> str:
    """Read a text; an empty one counts as unset."""
    return os.environ.get(name, "").strip() or default


def env_choice(name: str, *, default: str, choices: Collection[str]) -> str:
    """Read one of these upper-case words, in any case."""
    value = os.environ.get(name, "").strip().upper() or default
    if value not in choices:
        raise ImproperlyConfigured(f"{name}={value!r} is not one of {', '.join(choices)}.")
    return value


def env_url(name: str, *, default: str = "") -> str:
    """Read an http address without a slash at its end; empty when unset."""
    value = os.environ.get(name, "").strip().rstrip("/") or default
    if value and not (value.startswith(("http://", "https://")) and _host_of(value)):
        raise ImproperlyConfigured(f"{name}={value!r} is not an address like https://host:port.")
    return value


def _host_of(url: str) -> str | None:
    try:
        parts = urlsplit(url)
        return parts.hostname if parts.port != 0 else None
    except ValueError:  # a port that is no number, half a bracket
        return None


def env_bool(name: str, *, default: bool) -> bool:
    raw = os.environ.get(name, "").strip().lower()
    if not raw:
        return default
    if raw in TRUE:
        return True
    if raw in FALSE:
        return False
    raise ImproperlyConfigured(f"{name}={raw!r} is not a boolean. Use true or false.")


def env_int(name: str, *, default: int, minimum: int = 0) -> int:
    raw = os.environ.get(name, "").strip()
    if not raw:
        return default
    try:
        value = int(raw)
    except ValueError as error:
        raise ImproperlyConfigured(f"{name}={raw!r} is not a whole number.") from error
    if value < minimum:
        raise ImproperlyConfigured(f"{name}={value} is below {minimum}.")
    return value


def env_seconds(name: str, *, default: int, minimum: int = 1) -> int:
    """Read a duration in whole seconds."""
    return env_int(name, default=default, minimum=minimum)


def env_list(name: str) -> list[str]:
    """Read a comma-separated list; blanks are dropped."""
    return [part.strip() for part in os.environ.get(name, "").split(",") if part.strip()]


def env_path(name: str, *, default: Path) -> Path:
    raw = os.environ.get(name, "").strip()
    return Path(raw).expanduser().resolve() if raw else default


def env_secret(name: str, *, default: str = "") -> str:
    """Read a secret from NAME, or from the file that NAME_FILE names."""
    value = os.environ.get(name, "")
    file_name = os.environ.get(f"{name}_FILE", "")
    if value and file_name:
        raise ImproperlyConfigured(f"{name} and {name}_FILE are both set. Keep one of them.")
    if not file_name:
        return value or default
    try:
        return Path(file_name).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ImproperlyConfigured(
            f"{name}_FILE={file_name!r} cannot be read: {error.strerror}."
        ) from error
