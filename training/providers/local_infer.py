"""Generation on this machine: one warm server process for the whole installation, and its client.

The server is the trainer package's; it ends by itself when nobody asks for a while. Any web
process may start it, and all of them share it.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gligabao.errors import (
    GligabaoError,
    InferenceTimeout,
    InvalidRequest,
    ProviderUnreachable,
    StorageError,
)
from gligabao.secrets_filter import remove_secrets
from training.providers.base import InferEvent, InferRequest
from training.providers.local_folder import last_lines

STATE_FILE = "server.json"
LOCK_FILE = "server.lock"
LOG_FILE = "server.log"
SERVER_COMMAND = (sys.executable, "-P", "-m", "trainer.infer")

MAX_ANSWER_BYTES = 2**24  # of one line: the last one holds the whole response
CONNECT_SECONDS = 5
RETRY_SECONDS = 0.05

# What the server says of a prompt that it cannot take, and of a model that it cannot load. Any
# other code is a failure of the server itself.
REQUEST_CODES = frozenset({"prompt_too_long", "invalid_request", "invalid_messages"})
MODEL_CODES = frozenset({"model_unavailable", "adapter_invalid"})


class ServerGone(Exception):
    """The server closed the connection before a word: it was about to end, out of work."""


@dataclass(frozen=True)
class LocalInference:
    """Asks the inference server of this installation, and starts it when none lives."""

    folder: Path
    environment: Mapping[str, str] = field(repr=False)  # may hold an account's token
    timeout_seconds: float
    idle_seconds: int
    command: Sequence[str] = SERVER_COMMAND

    async def generate(self, request: InferRequest) -> AsyncIterator[InferEvent]:
        """Pieces of text and notes as they come, then one "done".

        Raises InferenceTimeout, InvalidRequest, StorageError, ProviderUnreachable. Closing the
        iterator closes the connection, on which the server ends the generation.
        """
        deadline = time.monotonic() + self.timeout_seconds
        try:
            async with contextlib.aclosing(self._ask(request, deadline)) as events:
                async for event in events:
                    yield event
            return
        except ServerGone:
            pass  # between its last work and its end; the next one is a new server
        try:
            async with contextlib.aclosing(self._ask(request, deadline)) as events:
                async for event in events:
                    yield event
        except ServerGone as error:
            raise self._died() from error

    async def _ask(self, request: InferRequest, deadline: float) -> AsyncIterator[InferEvent]:
        reader, writer, key = await self._connect(deadline)
        is_first = True
        try:
            writer.write(_question(request, key))
            while True:
                try:
                    line = await asyncio.wait_for(reader.readline(), _left(deadline))
                except TimeoutError as error:
                    raise self._too_late() from error
                except (OSError, ValueError):  # cut off, or a line without an end
                    line = b""
                if not line.endswith(b"\n"):
                    raise ServerGone if is_first and not line else self._died()
                event = _event(line)
                yield event
                if event.kind == "done":
                    return
                is_first = False
        finally:
            writer.close()

    # --- The server --------------------------------------------------------------------------

    async def _connect(
        self, deadline: float
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str]:
        """A connection to the living server, or to the one that we start."""
        server: subprocess.Popen | None = None
        while time.monotonic() < deadline:
            exit_code = server.poll() if server is not None else None
            if exit_code:
                raise self._died()
            if exit_code == 0:
                server = None  # it went idle before we came
            # Before the connection: only a living server's state file can be trusted, the port
            # of a dead one may be a stranger's by now.
            server = server or await asyncio.to_thread(self._start_if_none_lives)
            if connection := await self._connect_once():
                return connection
            await asyncio.sleep(RETRY_SECONDS)
        raise self._too_late()

    async def _connect_once(
        self,
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter, str] | None:
        try:
            state = json.loads((self.folder / STATE_FILE).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        try:
            reader, writer = await asyncio.wait_for(
                asyncio.open_connection("127.0.0.1", state["port"], limit=MAX_ANSWER_BYTES),
                CONNECT_SECONDS,
            )
        except (OSError, TimeoutError):
            return None
        return reader, writer, state["key"]

    def _start_if_none_lives(self) -> subprocess.Popen | None:
        """Start a server; None if one lives or comes up.

        The server holds the lock from its start to its end, so there are never two.
        """
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            lock = os.open(self.folder / LOCK_FILE, os.O_RDWR | os.O_CREAT, 0o600)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                (self.folder / STATE_FILE).unlink(missing_ok=True)  # a dead server's
                return self._start(lock)
            except BlockingIOError:
                return None
            finally:
                os.close(lock)
        except OSError as error:
            raise ProviderUnreachable(
                f"The inference server cannot be started: {error.strerror}."
            ) from error

    def _start(self, lock: int) -> subprocess.Popen:
        with (self.folder / LOG_FILE).open("wb") as log:
            server = subprocess.Popen(
                [
                    *self.command,
                    "--serve",
                    "--state-file",
                    str(self.folder / STATE_FILE),
                    "--idle-seconds",
                    str(self.idle_seconds),
                ],
                cwd=self.folder,
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=[lock],
                start_new_session=True,
                umask=0o077,
            )
        # It may end before we do: somebody has to notice.
        threading.Thread(target=server.wait, name="infer-server", daemon=True).start()
        return server

    # --- Errors ------------------------------------------------------------------------------

    def _died(self) -> ProviderUnreachable:
        lines = last_lines(self.folder / LOG_FILE, limit=1, secrets=())
        last = f" It last wrote: {lines[0].text[:300]}" if lines else ""
        return ProviderUnreachable(
            f"The inference server ended before the answer was complete. Ask again.{last}",
            code="inference_failed",
        )

    def _too_late(self) -> InferenceTimeout:
        return InferenceTimeout(
            f"No complete answer within {self.timeout_seconds:g} seconds. Ask for fewer tokens, "
            "or raise GLIGABAO_INFER_TIMEOUT_SECONDS."
        )


def _question(request: InferRequest, key: str) -> bytes:
    body = {
        "key": key,
        "base": {
            "model_id": request.model_id,
            "revision": request.revision,
            "model_source": request.model_source,
        },
        "adapter_dir": request.adapter_dir,
        "messages": list(request.messages),
        "max_tokens": request.max_tokens,
        "temperature": request.temperature,
    }
    return json.dumps(body).encode() + b"\n"


def _left(deadline: float) -> float:
    return max(0.0, deadline - time.monotonic())


def _event(line: bytes) -> InferEvent:
    """One line of the server's answer. Raises what the server says went wrong."""
    try:
        answer: dict[str, Any] = json.loads(line)
    except ValueError as error:
        raise ProviderUnreachable(
            "The inference server answered what is no JSON.", code="inference_failed"
        ) from error
    if "token" in answer:
        return InferEvent(kind="token", text=answer["token"])
    if "note" in answer:
        return InferEvent(kind="note", text=answer["note"])
    if "done" in answer:
        done = answer["done"]
        return InferEvent(
            kind="done",
            text=done["response"],
            finish_reason=done["finish_reason"],
            num_tokens=done["num_tokens"],
        )
    raise _error_of(answer.get("error") or {})


def _error_of(error: Mapping[str, Any]) -> GligabaoError:
    code = str(error.get("code") or "inference_failed")
    message = remove_secrets(str(error.get("message") or "The generation failed."))
    if code in REQUEST_CODES:
        return InvalidRequest(message, code=code)
    if code in MODEL_CODES:
        return StorageError(message, code=code)
    return ProviderUnreachable(message, code=code)
