"""Some of the readers of a race, in one process: `python -m tests.training.feed.race_reader TASK`.

Each drops its connection at random moments, at least three times, and comes back to a server
at random with the last id that it has. Prints what each got.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
from urllib.parse import urlsplit

from tests.sse import SseParser

MIN_DROPS = 3
MAX_DROPS = 6
PAUSE_SECONDS = 0.05  # before coming back after a connection that was lost


class Reader:
    """Reads one job from its first event to its last."""

    def __init__(self, task, number):
        self.chance = random.Random(task["seed"] * 100_000 + number)
        self.task = task
        self.number = number
        self.run_id = task["run_ids"][number % len(task["run_ids"])]
        self.last_seq = task["last_seq"]
        num_drops = self.chance.randint(MIN_DROPS, MAX_DROPS)
        self.drops = sorted(self.chance.sample(range(self.last_seq), num_drops))
        self.seqs = []
        self.num_drops = self.num_connects = self.num_lost = 0

    async def read_all(self):
        await asyncio.sleep(self.chance.random())
        while not self.is_done:
            try:
                await self._read_until_drop()
            except (OSError, asyncio.IncompleteReadError, ConnectionError):
                self.num_lost += 1
                await asyncio.sleep(PAUSE_SECONDS)
        return {
            "connects": self.num_connects,
            "drops": self.num_drops,
            "lost": self.num_lost,
            "wrong": self._what_is_wrong(),
        }

    @property
    def is_done(self):
        return bool(self.seqs) and self.seqs[-1] >= self.last_seq

    async def _read_until_drop(self):
        url = urlsplit(self.chance.choice(self.task["urls"]))
        reader, writer = await asyncio.open_connection(url.hostname, url.port)
        try:
            writer.write(self._request(url))
            head = await reader.readuntil(b"\r\n\r\n")
            if b" 200 " not in head.split(b"\r\n")[0]:
                raise ConnectionError(head.decode())
            self.num_connects += 1
            parser = SseParser()
            while data := await reader.read(65536):
                for message in parser.feed(data):
                    if message.comment is None and self._is_enough(message):
                        return
            raise ConnectionError("the server ended the stream")
        finally:
            writer.transport.abort()

    def _request(self, url):
        lines = [
            f"GET {url.path}?{url.query}&run_id={self.run_id} HTTP/1.1",
            f"Host: {url.netloc}",
            f"Authorization: Bearer {self.task['token']}",
        ]
        if self.seqs:
            lines.append(f"Last-Event-ID: {self.seqs[-1]}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode()

    def _is_enough(self, message):
        """Take an event; true at the end of the job, and where the connection is to be dropped."""
        if message.data["seq"] != int(message.id) or message.data["run_id"] != self.run_id:
            raise AssertionError(f"a strange message: {message}")
        self.seqs.append(int(message.id))
        if self.drops and self.seqs[-1] >= self.drops[0]:
            self.drops.pop(0)
            self.num_drops += 1
            return True
        return self.is_done

    def _what_is_wrong(self):
        wanted = list(range(self.last_seq + 1))
        if self.seqs == wanted:
            return ""
        lost = sorted(set(wanted) - set(self.seqs))
        return (
            f"reader {self.number}: {len(self.seqs)} events, {len(lost)} lost {lost[:5]}, "
            f"{len(self.seqs) - len(set(self.seqs))} doubled, sorted: {self.seqs == sorted(self.seqs)}"
        )


async def main():
    task = json.loads(sys.argv[1])
    readers = [Reader(task, number) for number in task["numbers"]]
    print(json.dumps(await asyncio.gather(*(reader.read_all() for reader in readers))))


if __name__ == "__main__":
    asyncio.run(main())
