"""Answers questions on a loopback port, one at a time; ends when nobody has asked for a while.

One connection, one request: a JSON line in, JSON lines out (see `README.md`).
"""

from __future__ import annotations

import contextlib
import hmac
import json
import math
import os
import secrets
import select
import socket
import sys
import time
import traceback
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from .adapters import AdapterInvalid
from .base_models import BaseModel
from .errors import JobFailed, as_job_failure
from .generation import Generator, Listener, Question, RequestRefused
from .spec import SAFE_NAME

REQUEST_TIMEOUT_SECONDS = 10.0  # to send the request line; others wait meanwhile
SEND_TIMEOUT_SECONDS = 30.0  # for an asker that does not read
MAX_REQUEST_BYTES = 16 * 2**20
BACKLOG = 128  # askers that wait for their turn
MAX_TOKENS = 1_000_000
MAX_TEMPERATURE = 10.0


def serve(state_file: Path, models_dir: Path, *, idle_seconds: float) -> None:
    """Serve until `idle_seconds` pass without a request. The state file says where."""
    key = secrets.token_urlsafe(32)
    with socket.create_server(("127.0.0.1", 0), backlog=BACKLOG) as listener:
        state = {"port": listener.getsockname()[1], "key": key, "pid": os.getpid()}
        _write_private(state_file, json.dumps(state))
        try:
            generator = Generator(models_dir)
            listener.settimeout(idle_seconds)
            while True:
                try:
                    connection, _ = listener.accept()
                except TimeoutError:
                    return
                with connection:
                    _handle(connection, generator, key)
        finally:
            _remove_own(state_file, key)


def _write_private(path: Path, text: str) -> None:
    """Write a file at once, readable for its owner only."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with open(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    partial.replace(path)


def _remove_own(path: Path, key: str) -> None:
    """Remove the state file unless another server has written its own."""
    with contextlib.suppress(OSError, ValueError):
        if json.loads(path.read_text(encoding="utf-8")).get("key") == key:
            path.unlink()


def _handle(connection: socket.socket, generator: Generator, key: str) -> None:
    """Answer one request. Whatever goes wrong, the server lives on."""
    try:
        request = _read_request(connection, key)
        if request is not None:
            _answer(connection, generator, request)
    except RequestRefused as error:
        _send_error(connection, error.code, error.message)
    except AdapterInvalid as error:
        _send_error(connection, "adapter_invalid", str(error))
    except JobFailed as error:
        _send_error(connection, error.reason, error.message)
    except ConnectionError as error:
        print(f"an asker went away: {error.strerror or error}", file=sys.stderr, flush=True)
    except TimeoutError:
        print("an asker neither sent nor read for too long", file=sys.stderr, flush=True)
    except Exception as error:
        traceback.print_exc()
        failure = as_job_failure(error)
        _send_error(connection, failure.reason, failure.message)


def _read_request(connection: socket.socket, key: str) -> Mapping[str, Any] | None:
    """The request, or None from somebody without the key or without patience."""
    line = _read_line(connection)
    if not line:
        return None
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise RequestRefused("invalid_request", "The request is not a line of JSON.") from error
    if not isinstance(request, dict):
        raise RequestRefused("invalid_request", "The request is not a JSON object.")
    if not hmac.compare_digest(str(request.get("key")).encode(), key.encode()):
        raise RequestRefused("unauthorized", "The key is wrong.")
    return request


def _read_line(connection: socket.socket) -> bytes:
    deadline = time.monotonic() + REQUEST_TIMEOUT_SECONDS
    received = bytearray()
    while b"\n" not in received:
        connection.settimeout(max(0.01, deadline - time.monotonic()))
        chunk = connection.recv(65536)
        if not chunk or time.monotonic() > deadline:
            return b""
        received += chunk
        if len(received) > MAX_REQUEST_BYTES:
            raise RequestRefused("invalid_request", "The request is too long.")
    return bytes(received)


def _answer(connection: socket.socket, generator: Generator, request: Mapping[str, Any]) -> None:
    connection.settimeout(SEND_TIMEOUT_SECONDS)
    question = parse_question(request)
    is_gone = False

    def look() -> bool:
        nonlocal is_gone
        is_gone = is_gone or _has_closed(connection)
        return is_gone

    if look():  # it gave up while others were served
        return
    listener = Listener(
        on_text=lambda text: _send(connection, {"token": text}),
        on_note=lambda text: _send(connection, {"note": text}),
        is_gone=look,
    )
    answer = generator.answer(question, listener)
    if is_gone:
        raise BrokenPipeError(f"it had {answer.num_tokens} tokens")
    _send(
        connection,
        {
            "done": {
                "response": answer.response,
                "finish_reason": answer.finish_reason,
                "num_tokens": answer.num_tokens,
            }
        },
    )


def parse_question(request: Mapping[str, Any]) -> Question:
    """The question in a request. Raises RequestRefused (`invalid_request`)."""
    base = request.get("base")
    if not isinstance(base, dict):
        raise RequestRefused("invalid_request", "base is not an object.")
    for name in ("model_id", "revision"):  # they become folder names
        if not isinstance(base.get(name), str) or not SAFE_NAME.fullmatch(base[name]):
            raise RequestRefused("invalid_request", f"base.{name} is not a plain name.")
    max_tokens = request.get("max_tokens", 256)
    if not _is_int(max_tokens) or not 1 <= max_tokens <= MAX_TOKENS:
        raise RequestRefused("invalid_request", "max_tokens is not a whole number from 1.")
    temperature = request.get("temperature", 0)
    if not _is_number(temperature) or not 0 <= temperature <= MAX_TEMPERATURE:
        raise RequestRefused("invalid_request", "temperature is not a number from 0 to 10.")
    adapter_dir = request.get("adapter_dir")
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise RequestRefused("invalid_messages", "There are no messages.")
    return Question(
        base=BaseModel(
            base["model_id"],
            base["revision"],
            str(base.get("model_source", "")),
            str(base.get("model", "")),
        ),
        messages=messages,
        adapter_dir=Path(adapter_dir) if adapter_dir else None,
        max_tokens=max_tokens,
        temperature=float(temperature),
    )


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return _is_int(value) or (isinstance(value, float) and math.isfinite(value))


def _has_closed(connection: socket.socket) -> bool:
    """True once the other side has closed. Askers send nothing after their line."""
    readable, _, _ = select.select([connection], [], [], 0)
    if not readable:
        return False
    try:
        return not connection.recv(1, socket.MSG_PEEK)
    except OSError:
        return True


def _send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    connection.sendall(json.dumps(message).encode() + b"\n")


def _send_error(connection: socket.socket, code: str, message: str) -> None:
    with contextlib.suppress(OSError):  # nobody is left to hear it
        connection.settimeout(SEND_TIMEOUT_SECONDS)
        _send(connection, {"error": {"code": code, "message": message}})
