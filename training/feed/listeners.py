"""The open streams of this process, and what waits for each."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence

from django_eventstream.views import Listener, ListenerManager

from training.feed.messages import PAGE, Message

MAX_WAITING = PAGE


class Listeners(ListenerManager):
    """The streams of this process by channel, each with at most MAX_WAITING messages waiting."""

    def add_to_queues(self, channel: str, messages: Sequence[Message]) -> None:
        """Hand messages to a channel's streams; one with no room for them has an overflow."""
        loops: dict[asyncio.AbstractEventLoop, list[Listener]] = defaultdict(list)
        with self.lock:
            for listener in self.listeners_by_channel.get(channel, ()):
                waiting = listener.channel_items.setdefault(channel, [])
                if len(waiting) + len(messages) > MAX_WAITING:
                    listener.overflow = True
                    waiting.clear()
                elif not listener.overflow:
                    waiting.extend(messages)
                loops[listener.loop].append(listener)
        for loop, woken in loops.items():
            _wake(loop, woken)

    def take(self, listener: Listener) -> list[Message]:
        """What waits for a stream; it waits no longer."""
        with self.lock:
            waiting = [message for items in listener.channel_items.values() for message in items]
            listener.channel_items.clear()
            return waiting

    def start_over(self, listener: Listener) -> None:
        """Forget what waits, and that there was too much: the stream reads the rows again."""
        with self.lock:
            listener.channel_items.clear()
            listener.overflow = False

    def has_reader(self, channel: str) -> bool:
        return channel in self.listeners_by_channel

    def remove_listener(self, listener: Listener) -> None:
        """Remove a stream; safe to repeat, and for one that was never added."""
        with self.lock:
            for channel in listener.channels:
                readers = self.listeners_by_channel.get(channel, set())
                readers.discard(listener)
                if not readers:
                    self.listeners_by_channel.pop(channel, None)


def _wake(loop: asyncio.AbstractEventLoop, woken: Sequence[Listener]) -> None:
    """One call for all: each call from a thread costs the loop a wake-up."""
    try:
        loop.call_soon_threadsafe(lambda: [listener.aevent.set() for listener in woken])
    except RuntimeError:
        if not loop.is_closed():  # closed: the server is going down, and its streams with it
            raise


listeners = Listeners()
