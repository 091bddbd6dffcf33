"""Celery's queue as files in a folder, made safe for several processes.

Kombu's own transport creates a message under its final name and then writes it: a worker that
looks in between reads half a message and ends. Here a file appears complete.
"""

from __future__ import annotations

import contextlib
import json
import time
import uuid
from pathlib import Path
from typing import Any

from kombu.transport import filesystem


class Channel(filesystem.Channel):
    def _put(self, queue: str, payload: Any, **kwargs: Any) -> None:
        # Sorted by name is sorted by age; what follows the first dot names the queue.
        name = f"{time.monotonic_ns() // 10**6}_{uuid.uuid4()}.{queue}.msg"
        draft = Path(self.data_folder_out) / f".{name}"  # begins with a dot: nobody's queue
        try:
            draft.write_text(json.dumps(payload), encoding="utf-8")
            draft.replace(draft.with_name(name))
        finally:
            draft.unlink(missing_ok=True)  # half written on a full disk, it would stay for good

    def _queue_bind(self, exchange: str, routing_key: str, pattern: str, queue: str) -> None:
        table = self._exchange_file(exchange)
        if not table.exists():
            _make_complete(table, "[]")
        super()._queue_bind(exchange, routing_key, pattern, queue)


def _make_complete(file: Path, text: str) -> None:
    """Make the file with its content in one step; one that is there already stays."""
    draft = file.with_name(f".{file.name}.{uuid.uuid4()}")
    draft.write_text(text, encoding="utf-8")
    with contextlib.suppress(FileExistsError):
        file.hardlink_to(draft)
    draft.unlink()


class Transport(filesystem.Transport):
    Channel = Channel
