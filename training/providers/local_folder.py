"""What a run left in its folder: reports, printed lines, finished artifacts. Reads only."""

from __future__ import annotations

import io
import json
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO

from gligabao.errors import InvalidRequest, NotFound
from gligabao.rest import loads
from gligabao.secrets_filter import remove_secrets
from training.contract import MAX_BATCH
from training.providers.base import EventPage, LogLine, StoredFile

EVENTS_FILE = "events.jsonl"
LOG_FILE = "trainer.log"
OUTPUT_FOLDER = "output"

MAX_PAGE_BYTES = 2**20
MAX_TAIL_BYTES = 2**20  # of a log; more is not read, however many lines are asked for
MAX_LINE_CHARACTERS = 4000

# Colours and cursor moves of a terminal, then every other control character but the tab.
ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)?")
CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


# --- Reports ---------------------------------------------------------------------------------


def read_events(path: Path, cursor: str) -> EventPage:
    """The complete lines after the cursor, which counts bytes.

    A file that is shorter than the cursor, or has no line end there, is not the one that was
    read before: it is read from its beginning, since a report that is stored twice counts once.
    """
    start = int(cursor) if cursor.isascii() and cursor.isdecimal() else 0
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return EventPage(reports=[], cursor="")
    with file:
        start = start if _is_line_start(file, start) else 0
        file.seek(start)
        lines = file.read(MAX_PAGE_BYTES).split(b"\n")[:-1][:MAX_BATCH]
        if not lines:
            end = _end_of_line(file, start)
            return EventPage(reports=[], cursor=str(end), malformed=int(end > start))
    reports = [report for line in lines if (report := _parse(line)) is not None]
    return EventPage(
        reports=reports,
        cursor=str(start + sum(len(line) + 1 for line in lines)),
        malformed=len(lines) - len(reports),
    )


def _is_line_start(file: BinaryIO, position: int) -> bool:
    if position == 0:
        return True
    file.seek(position - 1)
    return file.read(1) == b"\n"


def _end_of_line(file: BinaryIO, start: int) -> int:
    """Where the line that starts here ends, if it is one that no page can hold; else `start`."""
    file.seek(start)
    position = start
    while chunk := file.read(MAX_PAGE_BYTES):
        found = chunk.find(b"\n")
        if found >= 0:
            return position + found + 1
        position += len(chunk)
    return start


def _parse(line: bytes) -> Any:
    """The report, by the same rules as one that is posted; None for a line that is none."""
    try:
        return loads(line, allow_nan=True) or None
    except InvalidRequest:
        return None


# --- Printed lines ---------------------------------------------------------------------------


def last_lines(path: Path, *, limit: int, secrets: tuple[str, ...]) -> list[LogLine]:
    """The last lines of a log of any size, safe to show."""
    try:
        file = path.open("rb")
    except FileNotFoundError:
        return []
    with file:
        file.seek(0, io.SEEK_END)
        start = max(0, file.tell() - MAX_TAIL_BYTES)
        file.seek(start)
        text = file.read(MAX_TAIL_BYTES).decode("utf-8", "replace")
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    # The first line of a tail may be the end of one; half a secret would not be recognised.
    lines = lines[1:] if start else lines
    return [
        LogLine(at=None, stream="stdout", text=_shown(line, secrets)) for line in lines[-limit:]
    ]


def _shown(line: str, secrets: tuple[str, ...]) -> str:
    # A progress bar draws over itself: only its last state would be seen in a terminal.
    line = line.rstrip("\r").rpartition("\r")[2]
    text = CONTROLS.sub("\ufffd", ESCAPES.sub("", line))
    return remove_secrets(text, known=secrets)[:MAX_LINE_CHARACTERS]


def job_secrets(spec_file: Path) -> tuple[str, ...]:
    """What must not be shown of a signed spec; nothing if there is no spec."""
    try:
        envelope = json.loads(spec_file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return ()
    return (json.loads(envelope["spec"])["job_token"],)


# --- Finished artifacts ----------------------------------------------------------------------


def list_files(root: Path) -> list[StoredFile]:
    """All regular files below `root`, by path; links are not followed and not listed."""
    return sorted(_walk(root, root), key=lambda file: file.path)


def _walk(folder: Path, root: Path) -> Iterator[StoredFile]:
    try:
        entries = list(os.scandir(folder))
    except FileNotFoundError:
        return
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(Path(entry.path), root)
        elif entry.is_file(follow_symlinks=False):
            yield StoredFile(
                path=Path(entry.path).relative_to(root).as_posix(),
                size_bytes=entry.stat(follow_symlinks=False).st_size,
            )


def open_file(root: Path, path: str) -> BinaryIO:
    """Open a regular file below `root`. Raises NotFound, also for what leads out of it."""
    parts = PurePosixPath(path).parts
    missing = NotFound(f"The run left no file {path[:200]!r}.")
    if not parts or ".." in parts or parts[0] == "/" or "\x00" in path:
        raise missing
    try:
        descriptor = _open_below(root, parts)
    except OSError as error:
        raise missing from error
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise missing
    return os.fdopen(descriptor, "rb")


def _open_below(root: Path, parts: tuple[str, ...]) -> int:
    """Step by step, so that no part can be a link, not even one that appears meanwhile."""
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts[:-1]:
        try:
            inner = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=folder)
        finally:
            os.close(folder)
        folder = inner
    try:
        # Not blocking: a pipe that lies there must not hold us up.
        return os.open(parts[-1], os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder)
    finally:
        os.close(folder)
