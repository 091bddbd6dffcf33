"""Removes secrets from text that a person or a log may see. Pure text work, no settings.

Removed are the values, not the words around them, so that a message still says what failed:
host and path of an address stay, its signature goes.

The text may be a hostile one of megabytes. So no pattern looks for the beginning of a name, which
stays in any case, and repetitions that others may follow are bounded: the time grows with the
length of the text, not with its square or cube.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from typing import Any

REMOVED = "[removed]"

_PATTERNS = (
    # Query values of signed addresses (S3, R2 and ours).
    re.compile(
        r"(?i)((?:x-amz-[a-z-]{1,40}|signature|token|awsaccesskeyid|key-pair-id)=)[^&\s\"'<>;]+"
    ),
    re.compile(r"(/artifacts/)[A-Za-z0-9_:.\-]{20,}"),
    # Headers.
    re.compile(
        r"(?i)(authorization\s{0,8}[:=]\s{0,8}['\"]?(?:bearer|basic|token)?\s{0,8})[^\s'\",;]+"
    ),
    re.compile(r"(?i)(\bbearer\s{1,8})[A-Za-z0-9._~+/=\-]{8,}"),
    re.compile(r"(?i)(\b(?:set-)?cookie\s{0,8}:\s{0,8})[^\r\n]+"),
    # Tokens by their shape.
    re.compile(r"()\bhf_[A-Za-z0-9]{6,}"),
    re.compile(r"()\b(?:ak|as)-[A-Za-z0-9]{4,}"),
    re.compile(r"()\b(?:AKIA|ASIA)[A-Z0-9]{6,}(?:%2F[^\s&\"']*)?"),
    re.compile(r"()\bsk-[A-Za-z0-9_\-]{8,}"),
    re.compile(r"()\b(?:ghp|gho|ghs|github_pat)_[A-Za-z0-9_]{8,}"),
    # NAME=value and "name": "value", where the name says that it is a secret. A sentence may
    # speak of tokens of text: "longer than 512 tokens: shorten them".
    re.compile(
        r"(?i)((?:secret|password|passwd|token(?!s: [a-z]{1,20}[ .,])|api_?key|access_?key"
        r"|spec_?key)"
        r"[a-z0-9_\-]{0,40}['\"]?\s{0,8}[=:]\s{0,8}['\"]?)(?![\s'\"])[^\s'\",;&}]{4,}"
    ),
    # user:password@ in an address.
    re.compile(r"(://[^\s/:@]*:)[^\s/@]+(?=@)"),
)


def remove_secrets(text: str, *, known: tuple[str, ...] = ()) -> str:
    """Return the text with every known and every recognisable secret replaced."""
    for secret in known:
        if secret:
            text = text.replace(secret, REMOVED)
    for pattern in _PATTERNS:
        text = pattern.sub(rf"\g<1>{REMOVED}", text)
    return text


def remove_secrets_deep(value: Any, *, known: tuple[str, ...] = ()) -> Any:
    """The same for every string inside a JSON value; keys stay as they are."""
    if isinstance(value, str):
        return remove_secrets(value, known=known)
    if isinstance(value, Mapping):
        return {key: remove_secrets_deep(item, known=known) for key, item in value.items()}
    if isinstance(value, list):
        return [remove_secrets_deep(item, known=known) for item in value]
    return value


class SecretsFilter(logging.Filter):
    """Applies `remove_secrets` to every record, its arguments and its traceback."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg = remove_secrets(record.getMessage())
        record.args = ()
        if record.exc_info and not record.exc_text:
            record.exc_text = logging.Formatter().formatException(record.exc_info)
        if record.exc_text:
            record.exc_text = remove_secrets(record.exc_text)
        return True
