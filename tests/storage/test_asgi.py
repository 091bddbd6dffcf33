from __future__ import annotations

import hashlib
import http.client
import io
import json
import os
import resource
import socket
import threading
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from django.core import signing

from gligabao.storage import get_storage
from gligabao.storage.local import SALT, Grant
from tests.storage.server import running
from tests.waiting import eventually

KEY = "job1/0/adapter_model.safetensors"
BODY = bytes(range(256)) * 1000
DIGEST = hashlib.sha256(BODY).hexdigest()


@pytest.fixture(scope="module")
def base_url():
    with running() as url:
        yield url


@pytest.fixture(autouse=True)
def storage(settings, tmp_path, base_url):
    settings.ARTIFACTS_DIR = tmp_path / "artifacts"
    settings.PUBLIC_URL = base_url
    return get_storage()


def ask(method, url, body=None, **headers):
    """One request on a connection of its own: status, headers, body."""
    parts = urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=30)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, parts.path, body=body, headers=names)
        response = connection.getresponse()
        return response.status, response.headers, response.read()
    finally:
        connection.close()


def code_of(answer):
    status, _, body = answer
    text = body.decode()
    return status, text[text.index("<Code>") + 6 : text.index("</Code>")]


def put_url(storage, *, key=KEY, body=BODY, expires_seconds=60):
    digest = hashlib.sha256(body).hexdigest()
    return storage.presigned_put(
        key, size_bytes=len(body), sha256=digest, expires_seconds=expires_seconds
    ).url


def get_url(storage, *, filename="model.bin", expires_seconds=60):
    path = storage.presigned_get(KEY, filename=filename, expires_seconds=expires_seconds)
    return f"{storage.base_url}{path}"


def content_of(storage, key):
    with storage.open(key) as file:
        return file.read()


def everything_below(storage):
    return [path for path in storage.root.rglob("*") if path.is_file()]


# --- PUT -------------------------------------------------------------------------------------


def test_file_is_stored_as_it_was_agreed(storage):
    assert ask("PUT", put_url(storage), BODY)[0] == 200

    assert content_of(storage, KEY) == BODY
    assert len(everything_below(storage)) == 1


def test_headers_that_were_not_agreed_do_no_harm(storage):
    requests = json.loads((Path(__file__).parents[1] / "cases" / "A01.json").read_text())

    for request in requests["requests"]:
        url = put_url(storage, key="job1/0/adapter_config.json", body=b"{}")
        assert ask("PUT", url, request["body"].encode(), **request["headers"])[0] == 200


def test_same_file_again_is_fine_and_another_one_is_refused(storage):
    assert ask("PUT", put_url(storage), BODY)[0] == 200
    assert ask("PUT", put_url(storage), BODY)[0] == 200

    other = BODY[::-1]
    answer = ask("PUT", put_url(storage, body=other), other)

    assert code_of(answer) == (412, "PreconditionFailed")
    assert content_of(storage, KEY) == BODY
    assert len(everything_below(storage)) == 1


def test_empty_file_is_a_file(storage):
    assert ask("PUT", put_url(storage, body=b""), b"")[0] == 200

    assert storage.stat(KEY).size_bytes == 0


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (BODY[:-1], (400, "IncompleteBody")),
        (BODY + b"x", (400, "EntityTooLarge")),
        (BODY[:-1] + b"x", (400, "BadDigest")),
    ],
)
def test_other_bytes_than_agreed_are_not_stored(storage, body, expected):
    assert code_of(ask("PUT", put_url(storage), body)) == expected
    assert everything_below(storage) == []


def test_body_without_a_length_is_refused(storage):
    answer = ask("PUT", put_url(storage), iter([BODY]))  # sent in chunks

    assert code_of(answer) == (411, "MissingContentLength")


def test_broken_off_upload_leaves_nothing(storage):
    parts = urlsplit(put_url(storage))
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        head = f"PUT {parts.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(BODY)}\r\n\r\n"
        connection.sendall(head.encode() + BODY[:1000])
        eventually(lambda: everything_below(storage))  # it is being written

    assert eventually(lambda: not everything_below(storage))


def test_bad_token_is_refused_before_a_byte_of_the_body_is_read(storage):
    parts = urlsplit(put_url(storage))
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        head = f"PUT {parts.path}x HTTP/1.1\r\nHost: x\r\nContent-Length: {10**12}\r\n\r\n"
        connection.sendall(head.encode())  # and nothing after it

        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 403")
    assert everything_below(storage) == []


def test_full_disk_is_refused_before_it_is_full(storage):
    url = storage.presigned_put(KEY, size_bytes=10**18, sha256=DIGEST, expires_seconds=60).url
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        head = f"PUT {parts.path} HTTP/1.1\r\nHost: x\r\nContent-Length: {10**18}\r\n\r\n"
        connection.sendall(head.encode())

        answer = connection.recv(65536)

    assert answer.startswith(b"HTTP/1.1 507")


def test_two_uploads_of_one_file_at_once_are_both_fine(storage):
    statuses = []

    def upload():
        statuses.append(ask("PUT", put_url(storage), BODY)[0])

    threads = [threading.Thread(target=upload) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert statuses == [200] * 6
    assert everything_below(storage) == [storage.root / KEY]


def test_memory_stays_flat_at_any_size(storage, tmp_path):
    size = 128 * 2**20
    digest = hashlib.sha256()
    source = tmp_path / "large"
    with source.open("wb") as file:
        for _ in range(size // 2**20):
            block = os.urandom(2**20)
            digest.update(block)
            file.write(block)
    url = storage.presigned_put(
        KEY, size_bytes=size, sha256=digest.hexdigest(), expires_seconds=600
    ).url
    peak_before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    with source.open("rb") as file:
        assert ask("PUT", url, file, Content_Length=str(size))[0] == 200

    grown_mib = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak_before) / 1024
    assert grown_mib < 60
    assert storage.stat(KEY).size_bytes == size


# --- Signatures ------------------------------------------------------------------------------


def test_expired_address_says_so(storage):
    for method, url in (
        ("PUT", put_url(storage, expires_seconds=-1)),
        ("GET", get_url(storage, expires_seconds=-1)),
    ):
        answer = ask(method, url, BODY if method == "PUT" else None)
        assert code_of(answer) == (403, "AccessDenied")
        assert b"Request has expired" in answer[2]


def test_sender_of_a_large_file_hears_that_its_address_has_expired(storage):
    large = BODY * 200  # more than the buffers between us hold

    answer = ask("PUT", put_url(storage, body=large, expires_seconds=-1), large, Connection="close")

    assert code_of(answer) == (403, "AccessDenied")
    assert everything_below(storage) == []


def test_address_of_one_method_is_no_good_for_another(storage):
    storage.put(KEY, io.BytesIO(BODY))

    assert code_of(ask("GET", put_url(storage)))[0] == 403
    assert code_of(ask("PUT", get_url(storage), BODY))[0] == 403
    assert ask("DELETE", get_url(storage))[0] == 405
    assert ask("POST", put_url(storage), BODY)[0] == 405


def test_token_that_was_not_signed_for_this_is_refused(storage, base_url, settings):
    grant = Grant(method="GET", key=KEY).token(expires_seconds=60)
    payload = signing.loads(grant, salt=SALT)
    tokens = [
        "",
        "x",
        grant[:-1],
        grant + "/../x",
        signing.dumps(payload, salt="another.purpose"),
        signing.dumps(payload, salt=SALT, key="another key"),
        "%00%ff",
    ]

    for token in tokens:
        assert code_of(ask("GET", f"{base_url}/artifacts/{token}"))[0] == 403, token


# --- GET and HEAD ----------------------------------------------------------------------------


@pytest.fixture
def stored(storage):
    storage.put(KEY, io.BytesIO(BODY))
    return get_url(storage)


def test_file_comes_as_a_download_that_no_browser_shows(stored, storage):
    status, headers, body = ask("GET", stored)

    assert (status, body) == (200, BODY)
    assert headers["Content-Disposition"] == 'attachment; filename="model.bin"'
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Content-Type"] == "application/octet-stream"
    hostile = get_url(storage, filename='a"\r\nSet-Cookie: x=1;.bin')
    assert ask("GET", hostile)[1]["Set-Cookie"] is None


def test_head_tells_the_size_without_the_file(stored):
    status, headers, body = ask("HEAD", stored)

    assert (status, headers["Content-Length"], body) == (200, str(len(BODY)), b"")


@pytest.mark.parametrize(
    ("range_", "part"),
    [
        ("bytes=0-9", slice(0, 10)),
        ("bytes=255990-", slice(255990, None)),
        ("bytes=255990-999999999", slice(255990, None)),
        ("bytes=-5", slice(-5, None)),
        ("bytes=-999999999", slice(0, None)),
    ],
)
def test_part_of_a_file_is_sent(stored, range_, part):
    status, headers, body = ask("GET", stored, Range=range_)

    assert (status, body) == (206, BODY[part])
    start, stop, _ = part.indices(len(BODY))
    assert headers["Content-Range"] == f"bytes {start}-{stop - 1}/{len(BODY)}"


@pytest.mark.parametrize("range_", ["bytes=256000-", "bytes=-0"])
def test_part_beyond_the_end_is_refused(stored, range_):
    answer = ask("GET", stored, Range=range_)

    assert code_of(answer) == (416, "InvalidRange")
    assert answer[1]["Content-Range"] == f"bytes */{len(BODY)}"


@pytest.mark.parametrize(
    "range_", ["bytes=9-1", "bytes=-", "bytes=0-1,4-5", "lines=1-2", "bytes=²-"]
)
def test_range_that_is_not_understood_gets_the_whole(stored, range_):
    status, _, body = ask("GET", stored, Range=range_.encode("utf-8"))

    assert (status, body) == (200, BODY)


def test_missing_file_is_404(storage):
    assert code_of(ask("GET", get_url(storage))) == (404, "NoSuchKey")
    assert ask("HEAD", get_url(storage))[0] == 404


def test_reader_that_goes_away_leaves_no_open_file(storage, stored):
    big = BODY * 100
    storage.delete_prefix(KEY)
    storage.put(KEY, io.BytesIO(big))
    parts = urlsplit(stored)
    with socket.create_connection((parts.hostname, parts.port)) as connection:
        connection.sendall(f"GET {parts.path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        connection.recv(1000)

    def is_open():
        links = [os.path.realpath(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd")]
        return str(storage.root / KEY) in links

    assert eventually(lambda: not is_open())
