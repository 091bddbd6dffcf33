"""The web process: uvicorn with our settings.

`manage.py up` hands over a socket that it opened itself: the port is ours before anything
starts, and while a web process that died is started again, its callers wait instead of being
refused.
"""

from __future__ import annotations

import argparse
import os
import socket

import uvicorn

BACKLOG = 2048  # connections that wait to be accepted


def open_socket(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 lets the system choose. Raises OSError."""
    family, _, _, _, address = socket.getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    return socket.create_server(address, family=family, backlog=BACKLOG)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m gligabao.web")
    parser.add_argument("--fd", type=int, help="number of a listening socket to use")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=7878)
    options = parser.parse_args()
    if options.fd is None:
        listener = open_socket(options.host, options.port)
    else:
        os.set_inheritable(options.fd, False)
        listener = socket.socket(fileno=options.fd)
    config = uvicorn.Config(
        "gligabao.asgi:application",
        loop="auto",
        http="httptools",
        ws="none",
        lifespan="off",
        access_log=False,
        log_config=None,  # Django's, which removes secrets
        # Who asked, and over https or not, is settled by GLIGABAO_TRUST_PROXY alone.
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        # Open streams would otherwise hold up the end for ever.
        timeout_graceful_shutdown=3,
    )
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
