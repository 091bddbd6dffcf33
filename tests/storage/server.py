"""The real application on a real port, in this process."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator

import uvicorn

from gligabao.storage.asgi import artifact_app


@contextlib.contextmanager
def running() -> Iterator[str]:
    """The base address of uvicorn serving artifacts."""
    listener = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(
        artifact_app, http="httptools", ws="none", lifespan="off", log_config=None, access_log=False
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join()
        listener.close()
