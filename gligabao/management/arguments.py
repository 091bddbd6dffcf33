"""Types of arguments that several commands take."""

from __future__ import annotations

import argparse

DEFAULT_PORT = 7878
MAX_PORT = 65535


def port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text[:6]) > MAX_PORT:
        raise argparse.ArgumentTypeError(f"{text[:20]!r} is no port; use 0 to {MAX_PORT}")
    return int(text)
