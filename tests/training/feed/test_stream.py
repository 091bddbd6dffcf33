"""A stream without a server around it, so that a test decides when it goes on."""

import asyncio
from contextlib import asynccontextmanager

import pytest
from django.contrib.auth.models import Group, User
from django.db import connections
from django.test import Client
from knox.models import AuthToken

from tests.factories import end_job, make_job
from tests.sse import SseParser
from tests.training.feed.feed_events import append_progress
from training.feed import stream as stream_module
from training.feed.channels import all_channel, run_channel
from training.feed.listeners import listeners
from training.feed.stream import RunFeed, Stream
from training.feed.tailer import tailer_of
from training.feed.view import _session_may_read, _token_may_read

pytestmark = pytest.mark.django_db(transaction=True, databases="__all__")


class Chunks:
    """Reads a stream step by step, as messages."""

    def __init__(self, stream):
        self.stream = stream
        self.chunks = aiter(stream)

    async def next(self):
        text = await asyncio.wait_for(anext(self.chunks), timeout=20)
        parser = SseParser(text=text)
        return list(parser.feed(b""))

    async def until_end(self):
        async for _ in self.chunks:
            pass

    async def next_events(self):
        while not (found := [m for m in await self.next() if m.comment is None]):
            pass
        return [message.data["seq"] for message in found]


async def in_thread(function, *args, **named):
    """Call it where the database may be used."""

    def call():
        try:
            return function(*args, **named)
        finally:
            connections.close_all()

    return await asyncio.to_thread(call)


@asynccontextmanager
async def open_stream(job=None, db="default", *, seq=0, may_read=lambda: True):
    run = RunFeed(job.pk, job.job_id, seq, job.next_seq) if job else None
    tailer = await in_thread(tailer_of, db)
    stream = Stream(tailer, run, user_id=1, may_read=may_read)
    chunks = Chunks(stream)
    try:
        yield chunks
    finally:
        await chunks.chunks.aclose()
        stream.close()


def test_p07_6_what_is_stored_between_replay_and_live_comes_once(any_db):
    job = make_job(db=any_db)
    append_progress(job, range(1, 10), db=any_db)

    async def scene():
        async with open_stream(job, any_db) as chunks:
            await chunks.next()
            replayed = await chunks.next_events()
            # The page is read, and the stream does not listen yet.
            await in_thread(append_progress, job, [10], db=any_db)
            await in_thread(tailer_of(any_db).sweep)
            then = await chunks.next_events()
            await in_thread(append_progress, job, [11], db=any_db)
            return replayed, then, await chunks.next_events()

    assert asyncio.run(scene()) == (list(range(10)), [10], [11])


def test_what_the_tailer_never_handed_over_is_read_from_the_rows(any_db):
    job = make_job(db=any_db)

    async def scene():
        async with open_stream(job, any_db) as chunks:
            await chunks.next()
            seqs = await chunks.next_events()
            channel = run_channel(any_db, job.pk)
            messages = await in_thread(_stored_unseen, job, any_db)
            listeners.add_to_queues(channel, messages[2:])
            while len(seqs) < 6:
                seqs += await chunks.next_events()
            return seqs

    assert asyncio.run(scene()) == list(range(6))


def _stored_unseen(job, db):
    """Five more events that the tailer believes it has told already."""
    tailer_of(db)._next_seq[job.pk] = 6
    append_progress(job, range(1, 6), db=db)
    return stream_module.messages_from(job.pk, 1, job_id=job.job_id, db=db)


def test_p12_a_keepalive_comes_before_the_first_event_and_after_the_last(monkeypatch):
    monkeypatch.setattr(stream_module, "KEEPALIVE_SECONDS", 0.05)
    job = make_job()

    async def scene():
        async with open_stream(job, seq=1) as chunks:
            before = [(await chunks.next())[0].comment for _ in range(3)]
            await in_thread(end_job, job, "cancelled")
            await chunks.next_events()
            after = [(await chunks.next())[0].comment for _ in range(3)]
            return before + after

    assert asyncio.run(scene()) == ["keepalive"] * 6


def test_the_keepalive_is_due_every_15_seconds():
    assert stream_module.KEEPALIVE_SECONDS == 15


def test_a_reader_of_all_jobs_for_whom_too_much_waits_is_let_go():
    job = make_job()

    async def scene():
        async with open_stream() as chunks:
            await chunks.next()
            messages = await in_thread(
                stream_module.messages_from, job.pk, 0, job_id=job.job_id, db="default"
            )
            listeners.add_to_queues(all_channel("default"), messages * 257)
            with pytest.raises(StopAsyncIteration):
                await chunks.next()
            return chunks.stream.is_closed

    assert asyncio.run(scene()) is True


def test_a_stream_that_is_closed_while_it_is_being_sent_leaves_nothing_behind():
    job = make_job()

    async def scene():
        async with open_stream(job) as chunks:
            await chunks.next()
            assert listeners.has_reader(run_channel("default", job.pk))
            await asyncio.to_thread(chunks.stream.close)
            await asyncio.to_thread(chunks.stream.close)
            return listeners.has_reader(run_channel("default", job.pk))

    assert asyncio.run(scene()) is False


def test_a_stream_ends_when_its_reader_may_no_longer_read(monkeypatch):
    monkeypatch.setattr(stream_module, "KEEPALIVE_SECONDS", 0.02)
    monkeypatch.setattr(stream_module, "RECHECK_SECONDS", 0.05)
    user = User.objects.create_user("reader", password="a-long-password")
    user.groups.add(Group.objects.get_or_create(name="viewer")[0])
    token, _ = AuthToken.objects.create(user)

    async def scene():
        may_read = lambda: _token_may_read(token.digest, "all-standard")  # noqa: E731
        async with open_stream(may_read=may_read) as chunks:
            for _ in range(10):
                await chunks.next()
            await in_thread(token.delete)
            await chunks.until_end()
            return chunks.stream.is_closed

    assert asyncio.run(scene()) is True


def test_a_login_stops_being_good_with_the_logout_the_role_and_the_password(user_with_role):
    user = user_with_role("viewer")
    client = Client()
    client.force_login(user)
    session = client.session.session_key
    assert _session_may_read(session, "all-standard")

    user.groups.clear()
    assert not _session_may_read(session, "all-standard")
    user.groups.add(Group.objects.get(name="viewer"))
    assert _session_may_read(session, "all-standard")

    user.set_password("another-long-password")
    user.save()
    assert not _session_may_read(session, "all-standard")

    client.force_login(user)
    session = client.session.session_key
    assert _session_may_read(session, "all-standard")
    client.logout()
    assert not _session_may_read(session, "all-standard")
