"""How fast the dataset validator reads, against plain orjson, and what memory it adds.

Run: python benchmarks/validator.py [--megabytes 256]. Prints one table; asserts nothing.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

import orjson  # noqa: E402
from rich.console import Console  # noqa: E402
from rich.table import Table  # noqa: E402

from datasets.formats import validate  # noqa: E402

ROW_BYTES = 1400
MAX_ROW_BYTES = 8 * 2**20
WORDS = ("the", "crate", "on", "shelf", "seven", "holds", "copper", "bolts", "glue", "forty", "or")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--megabytes", type=int, default=256)
    parser.add_argument("--measure", choices=READERS, help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        _measure(options.measure, Path(options.file))
    else:
        _compare(options.megabytes)


def _compare(megabytes: int) -> None:
    table = Table(title=f"Validator on {megabytes} MB a file, rows of about {ROW_BYTES} bytes")
    for column in ("file", "orjson MB/s", "validator MB/s", "ratio", "memory added"):
        table.add_column(column, justify="left" if column == "file" else "right")
    with tempfile.TemporaryDirectory() as folder:
        for name, make_row in ROWS.items():
            path = Path(folder) / "rows.jsonl"
            _write(path, make_row, megabytes=megabytes)
            plain = _measured("orjson", path)
            ours = _measured("validator", path)
            table.add_row(
                name,
                f"{plain['mb_per_second']:.0f}",
                f"{ours['mb_per_second']:.0f}",
                f"{ours['mb_per_second'] / plain['mb_per_second']:.2f}",
                f"{ours['added_mib']:.1f} MiB",
            )
    Console().print(table)


def _write(path: Path, make_row: Callable[[random.Random], dict], *, megabytes: int) -> None:
    rng = random.Random(7)
    size = 0
    with path.open("wb") as file:
        while size < megabytes * 10**6:
            size += file.write(json.dumps(make_row(rng)).encode() + b"\n")


def _measured(reader: str, path: Path) -> dict[str, float]:
    """One reader in a process of its own, so that its peak memory is its own."""
    arguments = [sys.executable, __file__, "--measure", reader, "--file", str(path)]
    return json.loads(subprocess.run(arguments, check=True, capture_output=True).stdout)


def _measure(reader: str, path: Path) -> None:
    before = _peak_mib()
    start = time.perf_counter()
    READERS[reader](path)
    seconds = time.perf_counter() - start
    print(
        json.dumps(
            {
                "mb_per_second": path.stat().st_size / 10**6 / seconds,
                "added_mib": _peak_mib() - before,
            }
        )
    )


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _read_plainly(path: Path) -> None:
    with path.open("rb") as file:
        for line in file:
            orjson.loads(line)


def _validate(path: Path) -> None:
    with path.open("rb") as file:
        result = validate(file, max_row_bytes=MAX_ROW_BYTES)
    if not result.is_valid:
        raise SystemExit(result.report["error"])


READERS = {"orjson": _read_plainly, "validator": _validate}


def _prose(rng: random.Random, num_bytes: int) -> str:
    return "".join(_words(rng, num_bytes))[:num_bytes]


def _words(rng: random.Random, num_bytes: int) -> Iterator[str]:
    written = 0
    while written < num_bytes:
        word = f"{rng.choice(WORDS)}{rng.choice((' ', ' ', ', ', '. '))}"
        written += len(word)
        yield word


def _chat(rng: random.Random) -> dict:
    share = (ROW_BYTES - 200) // 4
    roles = ("user", "assistant") * 2
    return {"messages": [{"role": role, "content": _prose(rng, share)} for role in roles]}


def _chat_with_extras(rng: random.Random) -> dict:
    return _chat(rng) | {"id": rng.randrange(10**9), "meta": {"source": "export", "tags": ["a"]}}


def _code(rng: random.Random) -> dict:
    code = json.dumps({"bolts": 7, "note": _prose(rng, 300), "path": "C:\\"}, indent=1)
    row = _chat(rng)
    row["messages"][3]["content"] = f"```json\n{code}\n``` a | b"
    return row


def _tools(rng: random.Random) -> dict:
    call = {"id": "c1", "type": "function"}
    call["function"] = {"name": "find", "arguments": json.dumps({"part": _prose(rng, 200)})}
    row = _chat(rng)
    row["messages"][2:2] = [
        {"role": "user", "content": _prose(rng, 60)},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": _prose(rng, 60)},
        {"role": "assistant", "content": _prose(rng, 60)},
    ]
    return row


def _prompt_completion(rng: random.Random) -> dict:
    return {"prompt": _prose(rng, ROW_BYTES // 2), "completion": _prose(rng, ROW_BYTES // 2)}


def _escaped(rng: random.Random) -> dict:
    row = _chat(rng)
    row["messages"][1]["content"] += "\u00e4\u00f6 \u8bad\u7ec3" * 10
    return row


ROWS = {
    "chat": _chat,
    "chat, extra keys": _chat_with_extras,
    "chat, code inside": _code,
    "chat, \\u escapes": _escaped,
    "chat, tool calls": _tools,
    "prompt/completion": _prompt_completion,
}

if __name__ == "__main__":
    main()
