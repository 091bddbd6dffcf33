"""Speaks the protocol of the inference server without a model; the prompt says how it behaves."""

from __future__ import annotations

import argparse
import json
import os
import socket
import sys
import time
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--serve", action="store_true")
    parser.add_argument("--state-file", type=Path)
    parser.add_argument("--idle-seconds", type=float)
    parser.add_argument("--broken", action="store_true")
    options = parser.parse_args()
    if options.broken:
        print("no model folder", file=sys.stderr)
        return 1
    folder = options.state_file.parent
    with (folder / "starts.txt").open("a") as file:
        file.write(f"{os.getpid()}\n")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        draft = options.state_file.with_suffix(".draft")
        state = {"port": listener.getsockname()[1], "key": "the-key", "pid": os.getpid()}
        draft.write_text(json.dumps(state))
        draft.replace(options.state_file)
        listener.settimeout(options.idle_seconds)
        while True:
            try:
                connection, _ = listener.accept()
            except TimeoutError:
                return 0
            with connection:
                answer(connection, folder)


def answer(connection: socket.socket, folder: Path) -> None:
    request = json.loads(connection.makefile("rb").readline())
    assert request["key"] == "the-key"

    def send(**line: object) -> None:
        connection.sendall(json.dumps(line).encode() + b"\n")

    prompt = request["messages"][-1]["content"]
    if prompt == "leave at once":
        return
    send(note="loading")
    if prompt == "die":
        send(token="Hel")
        os._exit(3)
    elif prompt == "hang":
        connection.settimeout(60)
        closed = connection.recv(1) == b""
        (folder / "closed.txt").write_text(str(closed))
    elif prompt.startswith("fail "):
        send(error={"code": prompt[5:], "message": "it says why"})
    elif prompt == "no json":
        connection.sendall(b"nonsense\n")
    else:
        text = f"{request['base']['model_id']} {request['adapter_dir']} {prompt}"
        for piece in text.split(" "):
            send(token=piece + " ")
            time.sleep(0.001)
        send(done={"response": text, "finish_reason": "stop", "num_tokens": 3})


if __name__ == "__main__":
    sys.exit(main())
