"""Upload requests as the bytes that a client sends."""

from pathlib import Path

CASES = Path(__file__).resolve().parent.parent / "cases"
DATASETS = "/v1/gb/training/datasets"
BOUNDARY = "----x9"
GOOD = (
    b'{"messages": [{"role": "user", "content": "Door?"}, {"role": "assistant", "content": "Open."}]}\n'
    b'{"messages": [{"role": "user", "content": "Lamp?"}, {"role": "assistant", "content": "Off."}]}\n'
)


def part(content, disposition):
    if isinstance(disposition, str):
        disposition = disposition.encode()
    return b"Content-Disposition: form-data; " + disposition + b"\r\n\r\n" + content


def file_part(content, filename="mine.jsonl"):
    """A file with its name put into the header just so."""
    name = filename.encode() if isinstance(filename, str) else filename
    return part(content, b'name="file"; filename="' + name + b'"')


def body_of(*parts, end=b"--\r\n"):
    delimiter = b"--" + BOUNDARY.encode()
    return b"".join(delimiter + b"\r\n" + each + b"\r\n" for each in parts) + delimiter + end


def send(client, body, content_type=f"multipart/form-data; boundary={BOUNDARY}", query=""):
    return client.generic("POST", DATASETS + query, body, content_type=content_type)


def upload(client, content=GOOD, filename="mine.jsonl", query="", **texts):
    parts = [part(value.encode(), f'name="{name}"') for name, value in texts.items()]
    return send(client, body_of(*parts, file_part(content, filename)), query=query)
