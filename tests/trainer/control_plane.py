"""A small control plane and object store on a loopback port, as a trainer sees them."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

EXPIRED = (403, b"<Error><Code>AccessDenied</Code><Message>Request has expired</Message></Error>")
WRONG_SIGNATURE = (403, b"<Error><Code>SignatureDoesNotMatch</Code></Error>")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return server.getsockname()[1]


class ControlPlane:
    """Keeps each report once, as the real one does, and takes files.

    `answers` are (status, body) for the next requests of a kind ("events", "uploads", "put"),
    before the ordinary ones.
    """

    def __init__(self, port: int = 0) -> None:
        self.posts: list[list[dict]] = []  # reports as they came, batch by batch
        self.events: dict[tuple, dict] = {}  # by boot and seq
        self.num_duplicates = 0
        self.tokens: list[str | None] = []
        self.stop = False
        self.answers: dict[str, list[tuple[int, bytes]]] = {"events": [], "uploads": [], "put": []}
        self.is_bad = lambda report: False
        self.manifests: list[list[dict]] = []
        self.put_headers: list[dict[str, str]] = []
        self.files: dict[str, bytes] = {}
        self.on_put = lambda: None
        self.redirect_to = ""
        self._server = ThreadingHTTPServer(("127.0.0.1", port), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,))
        self._thread.start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    @property
    def callback_url(self) -> str:
        return f"{self.address}/events?db=standard"

    @property
    def uploads_url(self) -> str:
        return f"{self.address}/uploads?db=standard"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def __enter__(self) -> ControlPlane:
        return self

    def __exit__(self, *error) -> None:
        self.close()

    def take_events(self, reports: list[dict]) -> tuple[int, dict]:
        if any(map(self.is_bad, reports)):
            return 400, {"error": "bad"}
        self.posts.append(reports)
        keys = [(report["boot"], report["seq"]) for report in reports]
        new = [key for key in keys if key not in self.events]
        self.num_duplicates += len(keys) - len(new)
        self.events |= dict(zip(keys, reports, strict=True))
        return 200, {
            "accepted": len(new),
            "duplicates": len(keys) - len(new),
            "rejected": [],
            "stop": self.stop,
        }

    def take_manifest(self, files: list[dict]) -> tuple[int, dict]:
        self.manifests.append(files)
        query = f"X-Amz-Signature=signature-number-{len(self.manifests)}"
        return 200, {
            "files": [
                {
                    "path": file["path"],
                    "method": "PUT",
                    "url": f"{self.address}/store/{file['path']}?{query}",
                    "headers": {"x-amz-meta-sha256": file["sha256"]},
                }
                for file in files
            ]
        }

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        plane = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                plane.tokens.append(self.headers["Authorization"])
                kind = "events" if self.path.startswith("/events") else "uploads"
                if plane.answers[kind]:
                    self.answer(*plane.answers[kind].pop(0))
                elif kind == "events":
                    self.answer_json(*plane.take_events(json.loads(body)))
                else:
                    self.answer_json(*plane.take_manifest(json.loads(body)["files"]))

            def do_PUT(self) -> None:
                plane.put_headers.append(dict(self.headers))
                plane.on_put()
                size = int(self.headers["Content-Length"])
                body = self.rfile.read(size)
                if len(body) < size:  # the sender broke off
                    return
                if plane.answers["put"]:
                    self.answer(*plane.answers["put"].pop(0))
                    return
                assert hashlib.sha256(body).hexdigest() == self.headers["x-amz-meta-sha256"]
                plane.files[self.path.split("/store/")[1].split("?")[0]] = body
                self.answer(200, b"")

            def answer_json(self, status: int, content: dict) -> None:
                self.answer(status, json.dumps(content).encode())

            def answer(self, status: int, body: bytes) -> None:
                self.send_response(status)
                if status == 302:
                    self.send_header("Location", plane.redirect_to)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args) -> None:
                pass

        return Handler
