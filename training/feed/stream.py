"""One open stream: what is stored first, then what arrives, in the order of the job's `seq`."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from django.db import DatabaseError, connections
from django_eventstream.views import Listener

from training.feed.channels import all_channel, run_channel
from training.feed.listeners import listeners
from training.feed.messages import KEEPALIVE, PAGE, Message, messages_from
from training.feed.tailer import Tailer

logger = logging.getLogger(__name__)

KEEPALIVE_SECONDS = 15.0
# How long one send may take before its reader counts as gone.
GRACE_SECONDS = 5.0
# How long a stream may outlive the login or token that opened it.
RECHECK_SECONDS = 60.0

# Reads the rows for all streams; few threads, so that streams hold few connections.
_reading = ThreadPoolExecutor(max_workers=4, thread_name_prefix="feed-read")


@dataclass(frozen=True)
class RunFeed:
    """The stream of one job begins at event `seq`; the job ended at `next_seq` when asked."""

    run_id: int
    job_id: str
    seq: int
    next_seq: int


class Stream:
    """The body of a response. Django calls `close()` however the response ends.

    Without `run` it is the stream of all jobs of the database. `may_read` asks, with database
    queries, whether the reader still may.
    """

    def __init__(
        self, tailer: Tailer, run: RunFeed | None, *, user_id: int, may_read: Callable[[], bool]
    ) -> None:
        self.user_id = user_id
        self.is_closed = False
        self._is_watching = False
        self._tailer = tailer
        self._db = tailer.db
        self._run = run
        self._may_read = may_read
        self._closing = threading.Lock()
        self._listener = Listener()
        self._listener.user_id = user_id
        self._listener.channels = {
            run_channel(self._db, run.run_id) if run else all_channel(self._db)
        }

    def close(self) -> None:
        """Forget the reader. Safe to repeat, from any thread."""
        with self._closing:
            if self.is_closed:
                return
            self.is_closed = True
        listeners.remove_listener(self._listener)
        if self._is_watching:
            self._tailer.unwatch(self._run.run_id)

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._guarded_chunks()

    async def _guarded_chunks(self) -> AsyncIterator[bytes]:
        """The chunks, cut off where a send does not end: so does one to a reader that is gone."""
        self._loop = asyncio.get_running_loop()
        self._next_keepalive = self._loop.time()
        self._next_recheck = self._loop.time() + RECHECK_SECONDS
        task = asyncio.current_task()
        self._listener.assign_loop()
        try:
            self._join()
            async for chunk in self._job_chunks(self._run) if self._run else self._all_chunks():
                cut = self._loop.call_later(GRACE_SECONDS, self._cut_off, task)
                try:
                    yield chunk
                finally:
                    cut.cancel()
        except DatabaseError as error:
            logger.warning("A stream of %s ends, its reader comes back: %s", self._db, error)
        finally:
            self.close()

    def _join(self) -> None:
        """Ask for what arrives, before the rows are read: what is found twice is sent once."""
        if self._run:
            self._tailer.watch(self._run.run_id, self._run.next_seq)
            self._is_watching = True
        listeners.add_listener(self._listener)

    def _cut_off(self, task: asyncio.Task) -> None:
        logger.info("A reader of a stream of %s reads nothing and is cut off.", self._db)
        task.cancel()

    async def _job_chunks(self, run: RunFeed) -> AsyncIterator[bytes]:
        yield await self._keepalive()  # the headers go out with the first byte
        seq = run.seq
        while self._is_wanted:
            # Too much waited, or there is a gap: neither is the reader's fault.
            listeners.start_over(self._listener)
            async for page in self._stored(run, seq):
                yield _joined(page)
                seq = page[-1].seq + 1
            while self._is_wanted and not self._listener.overflow:
                news = [message for message in await self._news() if message.seq >= seq]
                if not _follows(news, seq):
                    break
                if chunk := await self._keepalive() + _joined(news):
                    yield chunk
                seq += len(news)

    async def _all_chunks(self) -> AsyncIterator[bytes]:
        """Live only. A reader for whom too much waits loads the list of jobs again anyway."""
        yield await self._keepalive()
        while self._is_wanted and not self._listener.overflow:
            news = b"".join(message.plain for message in await self._news())
            if chunk := await self._keepalive() + news:
                yield chunk

    @property
    def _is_wanted(self) -> bool:
        return not self._listener.error  # set where access was taken away

    async def _stored(self, run: RunFeed, seq: int) -> AsyncIterator[list[Message]]:
        """The pages of the stored events from `seq` on."""
        while True:
            page = await self._loop.run_in_executor(_reading, _read, self._db, run, seq)
            if page:
                yield page
                seq = page[-1].seq + 1
            if len(page) < PAGE:
                return

    async def _news(self) -> list[Message]:
        """What has arrived; waits for it, at most until the next keepalive is due."""
        try:
            async with asyncio.timeout_at(self._next_keepalive):
                await self._listener.aevent.wait()
        except TimeoutError:
            return []
        self._listener.aevent.clear()
        return listeners.take(self._listener)

    async def _keepalive(self) -> bytes:
        """The comment that keeps the connection open, when it is due."""
        now = self._loop.time()
        if now < self._next_keepalive:
            return b""
        self._next_keepalive = now + KEEPALIVE_SECONDS
        if now >= self._next_recheck:
            await self._check_access()
        return KEEPALIVE

    async def _check_access(self) -> None:
        try:
            allowed = await self._loop.run_in_executor(_reading, _asked, self._may_read)
        except DatabaseError as error:
            logger.warning("Access to a stream is checked later: %s", error)
            return
        self._next_recheck = self._loop.time() + RECHECK_SECONDS
        if not allowed:
            self._listener.error = "forbidden"


def _joined(messages: Sequence[Message]) -> bytes:
    return b"".join(message.numbered for message in messages)


def _follows(messages: Sequence[Message], seq: int) -> bool:
    """Whether these are the next ones, without a gap."""
    return all(message.seq == wanted for wanted, message in enumerate(messages, seq))


def _read(db: str, run: RunFeed, seq: int) -> list[Message]:
    try:
        return messages_from(run.run_id, seq, job_id=run.job_id, db=db)
    finally:
        connections.close_all()


def _asked(may_read: Callable[[], bool]) -> bool:
    try:
        return may_read()
    finally:
        connections.close_all()
