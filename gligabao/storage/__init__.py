"""Where artifacts are kept."""

from __future__ import annotations

from gligabao.storage.base import Storage, StoredObject, UploadAddress
from gligabao.storage.local import LocalStorage

__all__ = ["Storage", "StoredObject", "UploadAddress", "get_storage"]


def get_storage() -> Storage:
    """The storage of this installation: files on the local disk."""
    return LocalStorage.from_settings()
