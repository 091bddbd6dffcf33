from __future__ import annotations

import hashlib
import io
import os
import time

import pytest

from gligabao.errors import Conflict, NotFound, StorageError
from gligabao.storage import get_storage
from gligabao.storage.local import DRAFT_PREFIX, LocalStorage


@pytest.fixture
def storage(tmp_path):
    return LocalStorage(root=tmp_path / "artifacts", base_url="http://127.0.0.1:1")


def content_of(storage, key):
    with storage.open(key) as file:
        return file.read()


def files_of(storage):
    return sorted(path.name for path in storage.root.rglob("*") if path.is_file())


def test_what_was_put_can_be_opened_and_measured(storage):
    stored = storage.put("job1/0/adapter_config.json", io.BytesIO(b"{}"))

    assert stored.size_bytes == 2
    assert storage.stat("job1/0/adapter_config.json").size_bytes == 2
    with storage.open("job1/0/adapter_config.json") as file:
        assert file.read() == b"{}"


def test_only_the_rest_of_a_file_is_put(storage):
    file = io.BytesIO(b"head and tail")
    file.seek(9)

    storage.put("job1/0/a.txt", file)

    assert content_of(storage, "job1/0/a.txt") == b"tail"


def test_same_bytes_again_change_nothing_and_others_are_refused(storage):
    storage.put("job1/0/a.txt", io.BytesIO(b"first"))

    storage.put("job1/0/a.txt", io.BytesIO(b"first"))
    with pytest.raises(Conflict):
        storage.put("job1/0/a.txt", io.BytesIO(b"other"))

    assert content_of(storage, "job1/0/a.txt") == b"first"
    assert files_of(storage) == ["a.txt"]


def test_source_that_breaks_leaves_nothing(storage):
    class Broken(io.BytesIO):
        def read(self, size=-1):
            raise OSError("the source is gone")

    with pytest.raises(OSError, match="the source is gone"):
        storage.put("job1/0/a.txt", Broken())

    assert files_of(storage) == []


def test_prefix_is_deleted_with_everything_below_and_nothing_beside(storage):
    for key in ("job1/0/a.txt", "job1/0/sub/b.txt", "job1/01/c.txt", "job2/0/d.txt"):
        storage.put(key, io.BytesIO(b"x"))

    storage.delete_prefix("job1/0")
    storage.delete_prefix("job1/0")

    assert files_of(storage) == ["c.txt", "d.txt"]


def test_missing_object_is_none_and_not_found(storage):
    storage.put("job1/0/a.txt", io.BytesIO(b"x"))

    for key in ("job1/0/b.txt", "job1/0", "job1/0/a.txt/b.txt"):
        assert storage.stat(key) is None
        with pytest.raises(NotFound):
            storage.open(key)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "/etc/passwd",
        "../secret",
        "job1/../../x",
        "job1//x",
        "job1/.hidden",
        "a\0b",
        "a b",
        "a\n",
    ],
)
def test_key_that_could_lead_elsewhere_is_refused(storage, key):
    for use in (storage.open, storage.stat, storage.delete_prefix):
        with pytest.raises(StorageError):
            use(key)
    with pytest.raises(StorageError):
        storage.presigned_get(key, filename="x", expires_seconds=1)


def test_full_disk_is_said_in_words(storage):
    with storage.draft("job1/0/a.txt") as draft:
        full = os.open("/dev/full", os.O_WRONLY)
        os.dup2(full, draft._file.fileno())
        os.close(full)
        with pytest.raises(StorageError, match="No space left on device"):
            draft.write(b"x" * 2**20)

    assert files_of(storage) == []


def test_old_drafts_are_removed_and_young_ones_are_not(storage):
    storage.put("job1/0/a.txt", io.BytesIO(b"x"))
    old, young = (storage.root / "job1" / "0" / f"{DRAFT_PREFIX}{name}" for name in ("a", "b"))
    old.write_text("")
    young.write_text("")
    os.utime(old, (time.time() - 2 * 86400,) * 2)

    assert storage.remove_leftovers() == 1
    assert files_of(storage) == [young.name, "a.txt"]


def test_addresses_stand_under_the_public_url_where_there_is_one(settings):
    settings.LOCAL_URL, settings.PUBLIC_URL = "http://127.0.0.1:7878", ""
    digest = hashlib.sha256(b"x").hexdigest()
    local = get_storage().presigned_put("job/0/a", size_bytes=1, sha256=digest, expires_seconds=9)
    settings.PUBLIC_URL = "https://gligabao.example"
    public = get_storage().presigned_put("job/0/a", size_bytes=1, sha256=digest, expires_seconds=9)
    download = get_storage().presigned_get("job/0/a", filename="a", expires_seconds=9)

    assert (local.method, local.headers) == ("PUT", {})
    assert local.url.startswith("http://127.0.0.1:7878/artifacts/")
    assert public.url.startswith("https://gligabao.example/artifacts/")
    assert download.startswith("/artifacts/")
