"""Artifacts as files of this machine, behind signed addresses that `asgi.py` serves."""

from __future__ import annotations

import hashlib
import os
import shutil
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.core import signing

from gligabao.errors import Conflict, NotFound, StorageError
from gligabao.storage.base import StoredObject, UploadAddress, check_key

SALT = "gligabao.artifact.v1"
URL_PATH = "/artifacts/"
DRAFT_PREFIX = ".put-"
DRAFT_MAX_AGE = 86400  # seconds; no upload takes that long
CHUNK_BYTES = 2**20
DISK_RESERVE_BYTES = 256 * 2**20  # what the databases and logs of the machine live on


class AddressRefused(Exception):
    """A token that is not good, for this method or any more."""


class AddressExpired(AddressRefused):
    """A token that was good once."""


@dataclass(frozen=True)
class Grant:
    """What one signed address allows: one method on one key."""

    method: str
    key: str
    size_bytes: int = 0
    sha256: str = ""
    filename: str = ""

    def token(self, *, expires_seconds: int) -> str:
        # The end is part of what is signed: it is the signer's choice, not the reader's.
        payload: dict[str, Any] = {
            "m": self.method,
            "k": self.key,
            "n": self.size_bytes,
            "s": self.sha256,
            "f": self.filename,
            "e": int(time.time()) + expires_seconds,
        }
        return signing.dumps(payload, salt=SALT, compress=False)


def read_token(token: str, *, method: str) -> Grant:
    """The grant of a token. Raises AddressExpired, AddressRefused."""
    try:
        payload = signing.loads(token, salt=SALT)
    except signing.BadSignature as error:
        raise AddressRefused from error
    if payload["m"] != method:
        raise AddressRefused
    if time.time() >= payload["e"]:
        raise AddressExpired
    return Grant(
        method=payload["m"],
        key=check_key(payload["k"]),
        size_bytes=payload["n"],
        sha256=payload["s"],
        filename=payload["f"],
    )


@dataclass(frozen=True)
class LocalStorage:
    """Objects as files below `root`; they appear complete and are never written over."""

    root: Path
    base_url: str

    @classmethod
    def from_settings(cls) -> LocalStorage:
        return cls(root=settings.ARTIFACTS_DIR, base_url=settings.PUBLIC_URL or settings.LOCAL_URL)

    def put(self, key: str, file: BinaryIO) -> StoredObject:
        with self.draft(key) as draft:
            while chunk := file.read(CHUNK_BYTES):
                draft.write(chunk)
            return draft.publish()

    def open(self, key: str) -> BinaryIO:
        try:
            return self._path(key).open("rb")
        except (FileNotFoundError, IsADirectoryError, NotADirectoryError) as error:
            raise NotFound(f"There is no stored file {key!r}.", code="no_such_key") from error
        except OSError as error:
            raise _said_in_words(key, error) from error

    def stat(self, key: str) -> StoredObject | None:
        path = self._path(key)
        return StoredObject(size_bytes=path.stat().st_size) if path.is_file() else None

    def delete_prefix(self, prefix: str) -> None:
        path = self._path(prefix)
        try:
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
        except OSError as error:
            raise _said_in_words(prefix, error) from error

    def presigned_put(
        self, key: str, *, size_bytes: int, sha256: str, expires_seconds: int
    ) -> UploadAddress:
        grant = Grant(method="PUT", key=check_key(key), size_bytes=size_bytes, sha256=sha256)
        token = grant.token(expires_seconds=expires_seconds)
        return UploadAddress(method="PUT", url=f"{self.base_url}{URL_PATH}{token}")

    def presigned_get(self, key: str, *, filename: str, expires_seconds: int) -> str:
        # Without a host: a browser stays where it is, however it reached us.
        grant = Grant(method="GET", key=check_key(key), filename=filename)
        return f"{URL_PATH}{grant.token(expires_seconds=expires_seconds)}"

    def has_room_for(self, size_bytes: int) -> bool:
        self.root.mkdir(parents=True, exist_ok=True)
        return shutil.disk_usage(self.root).free >= size_bytes + DISK_RESERVE_BYTES

    def remove_leftovers(self) -> int:
        """Delete drafts that a process left behind when it died; returns how many."""
        oldest = time.time() - DRAFT_MAX_AGE
        drafts = [
            path for path in self.root.rglob(f"{DRAFT_PREFIX}*") if path.stat().st_mtime < oldest
        ]
        for path in drafts:
            path.unlink(missing_ok=True)
        return len(drafts)

    @contextmanager
    def draft(self, key: str) -> Iterator[Draft]:
        """A new file that becomes the object by `publish`, and goes without it."""
        path = self._path(key)
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            draft = Draft(key, path)
        except OSError as error:
            raise _said_in_words(key, error) from error
        try:
            yield draft
        finally:
            draft.discard()

    def _path(self, key: str) -> Path:
        return self.root / check_key(key)


class Draft:
    """A file that is being written beside its place."""

    def __init__(self, key: str, path: Path) -> None:
        self._key = key
        self._path = path
        self._draft = path.with_name(f"{DRAFT_PREFIX}{uuid.uuid4().hex}")
        self._digest = hashlib.sha256()
        descriptor = os.open(self._draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        self._file = os.fdopen(descriptor, "wb")
        self.size_bytes = 0

    @property
    def sha256(self) -> str:
        return self._digest.hexdigest()

    def write(self, chunk: bytes | bytearray) -> None:
        self._digest.update(chunk)
        try:
            self._file.write(chunk)
        except OSError as error:
            raise _said_in_words(self._key, error) from error
        self.size_bytes += len(chunk)

    def publish(self) -> StoredObject:
        """Make the file the object. Raises Conflict if the object has other bytes."""
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
            # A link, unlike a rename, never replaces what is there.
            os.link(self._draft, self._path)
            _sync_folder(self._path.parent)
        except FileExistsError as error:
            if digest_of(self._path) != self.sha256:
                raise Conflict(
                    f"{self._key!r} is stored already, with other content. It is not replaced.",
                    code="no_overwrite",
                ) from error
        except OSError as error:
            raise _said_in_words(self._key, error) from error
        return StoredObject(size_bytes=self.size_bytes)

    def discard(self) -> None:
        with suppress(OSError):  # a full disk fails the last write again; the file goes anyway
            self._file.close()
        self._draft.unlink(missing_ok=True)


def digest_of(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync_folder(folder: Path) -> None:
    """Without this, a power cut may leave a folder that does not name the file yet."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _said_in_words(key: str, error: OSError) -> StorageError:
    return StorageError(f"The storage failed for {key!r}: {error.strerror or error}.")
