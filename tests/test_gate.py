"""The gate before Django: who is answered before a byte of the body is read, and what is too much."""

import asyncio
import json
import socket
import threading
from pathlib import Path

import pytest
import uvicorn
from django.conf import settings
from django.db import connections
from django.test import Client
from knox.models import AuthToken

from gligabao import gate as gate_module
from gligabao.asgi import application
from tests.datasets.uploads import BOUNDARY, DATASETS, GOOD, body_of, file_part

JOBS = "/v1/gb/training/jobs"
FORM = f"multipart/form-data; boundary={BOUNDARY}"

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _folders(settings, tmp_path):
    settings.DATASETS_DIR = tmp_path / "datasets_training"
    settings.DATASET_VERSIONS_DIR = tmp_path / "dataset_versions"


@pytest.fixture
def token(user_with_role):
    return lambda role: AuthToken.objects.create(user_with_role(role))[1]


class Exchange:
    """One request to the application; notes what happened in which order."""

    def __init__(self, method, path, *, headers=(), chunks=(b"",)):
        given = {"host": "localhost", **dict(headers)}
        self.scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": [(k.encode(), v.encode()) for k, v in given.items()],
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        self.chunks = list(chunks)
        self.num_read_before_answer = 0
        self.status = None
        self.body = b""

    async def receive(self):
        if self.status is None:
            self.num_read_before_answer += 1
        if not self.chunks:
            await asyncio.sleep(3600)  # a client that waits; Django cancels this
        chunk = self.chunks.pop(0)
        return {"type": "http.request", "body": chunk, "more_body": bool(self.chunks)}

    async def send(self, message):
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.headers = {k.decode().lower(): v.decode() for k, v in message["headers"]}
        else:
            self.body += message.get("body", b"")

    @property
    def code(self):
        return json.loads(self.body)["code"]


def ask(method, path, **request):
    exchange = Exchange(method, path, **request)
    asyncio.run(application(exchange.scope, exchange.receive, exchange.send))
    return exchange


def bearer(token):
    return {
        "authorization": f"Bearer {token}",
        "content-type": FORM,
        "transfer-encoding": "chunked",
    }


@pytest.mark.parametrize("login", [None, "Bearer nonsense", "Bearer", "Basic eDp5", "Bearer a b"])
def test_unknown_sender_is_answered_before_a_byte_is_read(login):
    headers = {"content-type": FORM} | ({"authorization": login} if login else {})

    answer = ask("POST", DATASETS, headers=headers, chunks=[GOOD] * 3)

    assert (answer.status, answer.num_read_before_answer) == (401, 0)
    assert answer.headers["www-authenticate"] == "Bearer"
    assert answer.headers["connection"] == "close"


def test_viewer_is_answered_before_a_byte_is_read(token):
    answer = ask("POST", DATASETS, headers=bearer(token("viewer")), chunks=[GOOD])

    assert (answer.status, answer.num_read_before_answer) == (403, 0)


def test_trainer_gets_through(token):
    body = body_of(file_part(GOOD))

    answer = ask("POST", DATASETS, headers=bearer(token("trainer")), chunks=[body[:50], body[50:]])

    assert answer.status == 201


def test_session_gets_through_with_its_csrf_token_only(user_with_role):
    browser = Client()
    browser.force_login(user_with_role("trainer"))
    cookie = f"sessionid={browser.cookies['sessionid'].value}; csrftoken={'a' * 32}"
    headers = {"content-type": FORM, "cookie": cookie, "transfer-encoding": "chunked"}

    refused = ask("POST", DATASETS, headers=headers, chunks=[GOOD])
    accepted = ask(
        "POST",
        DATASETS,
        headers=headers | {"x-csrftoken": "a" * 32},
        chunks=[body_of(file_part(GOOD))],
    )

    assert (refused.status, refused.num_read_before_answer) == (403, 0)
    assert accepted.status == 201


def test_user_who_was_shut_out_is_refused(user_with_role):
    user = user_with_role("trainer")
    token = AuthToken.objects.create(user)[1]
    user.is_active = False
    user.save()

    assert ask("POST", DATASETS, headers=bearer(token), chunks=[GOOD]).status == 401


@pytest.mark.parametrize("length", ["99999999999", "9" * 400])
@pytest.mark.parametrize(("method", "path"), [("POST", JOBS), ("POST", DATASETS), ("PUT", "/x")])
def test_length_over_the_limit_is_a_413_before_a_byte_is_read(method, path, length):
    answer = ask(method, path, headers={"content-length": length}, chunks=[b"x"] * 9)

    assert (answer.status, answer.num_read_before_answer, answer.code) == (413, 0, "too_large")


@pytest.mark.parametrize("length", ["-1", "x", "", "1.5"])
def test_nonsense_as_a_length_is_a_400(length):
    assert ask("POST", JOBS, headers={"content-length": length}).status == 400


def test_body_without_a_length_is_counted():
    block = b"x" * 2**20
    too_much = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // len(block) + 2

    answer = ask("POST", JOBS, headers={"transfer-encoding": "chunked"}, chunks=[block] * too_much)

    assert (answer.status, answer.code) == (413, "too_large")
    assert answer.num_read_before_answer == too_much - 1


def test_body_without_a_length_is_read(token):
    headers = bearer(token("trainer")) | {"content-type": "application/json"}

    answer = ask("POST", JOBS, headers=headers, chunks=[b'{"colour":', b' "red"}'])

    assert answer.status == 400
    assert "colour" in json.loads(answer.body)["error"]


def test_upload_without_a_length_is_counted_too(settings, token, tmp_path):
    settings.MAX_UPLOAD_BYTES = 1000
    blocks = [b"x" * 2**20] * 4

    answer = ask("POST", DATASETS, headers=bearer(token("trainer")), chunks=blocks)

    assert answer.status == 413
    assert list(tmp_path.rglob("*.jsonl")) == []


def test_refused_sender_is_heard_out_up_to_a_limit(monkeypatch):
    monkeypatch.setattr(gate_module, "HEARD_OUT_BYTES", 30)
    short = Exchange("POST", DATASETS, chunks=[b"x" * 10] * 3)
    endless = Exchange("POST", DATASETS, chunks=[b"x" * 10] * 1000)

    for exchange in (short, endless):
        asyncio.run(application(exchange.scope, exchange.receive, exchange.send))

    assert short.chunks == []
    assert len(endless.chunks) > 900


def test_address_of_an_artifact_does_not_go_to_django():
    answer = ask("PUT", "/artifacts/nonsense", headers={"content-length": "3"}, chunks=[b"abc"])

    assert answer.status == 403
    assert b"SignatureDoesNotMatch" in answer.body


@pytest.fixture
def server():
    """The application behind uvicorn, in a thread."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        application, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    running = uvicorn.Server(config)
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    yield listener.getsockname()
    running.should_exit = True
    thread.join()
    listener.close()
    connections.close_all()


def test_over_a_socket_a_bad_token_sends_nothing_to_the_disk(server):
    head = (
        f"POST {DATASETS} HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer bad\r\n"
        f"Content-Type: {FORM}\r\nContent-Length: 5000000000\r\n\r\n"
    ).encode()
    before = {path.name for path in Path(settings.TEMP_DIR).iterdir()}
    with socket.create_connection(server, timeout=20) as client:
        client.sendall(head)
        start = client.recv(4096)
        sent = 0
        try:
            while sent < 64 * 2**20:
                sent += client.send(b"x" * 65536)
        except OSError:
            pass  # the server has ended the connection, as it should

    assert start.startswith(b"HTTP/1.1 401")
    assert sent < 64 * 2**20
    assert {path.name for path in Path(settings.TEMP_DIR).iterdir()} == before


UPLOAD_PAGE = "/console/datasets/upload/"


def session(user):
    client = Client()
    client.force_login(user)
    return {"cookie": f"sessionid={client.cookies['sessionid'].value}", "content-type": FORM}


def test_visitor_of_the_upload_page_is_sent_to_the_login_before_a_byte_is_read(user_with_role):
    for headers in ({"content-type": FORM}, session(user_with_role("viewer"))):
        answer = ask("POST", UPLOAD_PAGE, headers=headers, chunks=[GOOD] * 3)

        assert (answer.status, answer.num_read_before_answer) == (303, 0)
        assert answer.headers["location"] == "/login/?next=%2Fconsole%2Fdatasets%2Fupload%2F"


def test_file_for_the_upload_page_has_the_limit_of_uploads(user_with_role, settings):
    settings.MAX_UPLOAD_BYTES = 1000
    headers = session(user_with_role("trainer")) | {"content-length": str(2**20 + 2000)}

    answer = ask("POST", UPLOAD_PAGE, headers=headers, chunks=[GOOD])

    assert (answer.status, answer.num_read_before_answer) == (413, 0)
