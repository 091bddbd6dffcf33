"""What every storage can do. Keys are made from ids: `job_id/attempt/path`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import BinaryIO, Protocol

from gligabao.errors import StorageError

MAX_KEY_CHARACTERS = 1024  # as in S3
# A part begins with a letter or digit, so that no part is "..", hidden, or a draft of ours.
KEY = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]*(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)*")


@dataclass(frozen=True)
class StoredObject:
    """What the storage says of an object; its digest only where it keeps one itself."""

    size_bytes: int
    sha256: str | None = None


@dataclass(frozen=True)
class UploadAddress:
    """Where to send one file. The sender sends exactly these headers."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)


class Storage(Protocol):
    """Keeps objects that are written once. Raises StorageError when it cannot work."""

    def put(self, key: str, file: BinaryIO) -> StoredObject:
        """Store what the file holds from here to its end.

        Repeating it with the same bytes changes nothing; other bytes raise Conflict.
        """
        ...

    def open(self, key: str) -> BinaryIO:
        """The stored bytes. Raises NotFound."""
        ...

    def stat(self, key: str) -> StoredObject | None: ...

    def delete_prefix(self, prefix: str) -> None:
        """Delete every object below `prefix/`, and one of that name. None is no error."""
        ...

    def presigned_put(
        self, key: str, *, size_bytes: int, sha256: str, expires_seconds: int
    ) -> UploadAddress:
        """An address that takes exactly these bytes, until it expires."""
        ...

    def presigned_get(self, key: str, *, filename: str, expires_seconds: int) -> str:
        """An address that hands the object out as a download of this name.

        Absolute, or a path on this site: where a browser that is here now can go.
        """
        ...


def check_key(key: str) -> str:
    """Return the key. Raises StorageError for what could lead out of its place."""
    if len(key) > MAX_KEY_CHARACTERS or not KEY.fullmatch(key):
        raise StorageError(f"{key[:100]!r} is not a usable key.", code="bad_key")
    return key
