"""Patterns that a session has asked the server for, and how far each is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from .backoff import CONNECT_BASE, CONNECT_MOST, Backoff
from .frames import ClientFrame, ErrorFrame

__all__ = ["Patterns"]

# How many patterns one frame names.
_MOST_PATTERNS = 256

Make = Callable[[tuple[str, ...], str], ClientFrame]


@dataclass(slots=True)
class _Pattern:
    """A pattern with its queue, and how far it is on this connection."""

    sent: bool = False
    active: bool = False
    mark: int = 0
    """The ping whose pong makes it active."""
    retry_at: float = 0.0
    retries: Backoff = field(default_factory=lambda: Backoff(CONNECT_BASE, CONNECT_MOST))


class Patterns:
    """What a program has asked for by pattern and queue. It is asked for again on every connection.

    begin and end make the frames; field is what the server's errors about them name.
    """

    def __init__(self, *, begin: Make, end: Make, field: str) -> None:
        self._begin = begin
        self._end = end
        self._field = field
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Pattern] = {}  # by queue and pattern
        self._ending: list[tuple[str, str]] = []  # to be ended on this connection
        self._live = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: asyncio.Event | None = None  # wakes the session's writer
        self._watchers: set[asyncio.Event] = set()
        self._ended = False  # nothing more is asked for, and what was is to be ended
        self._end_mark = 0  # the ping whose pong says that it has been; 0: nothing had been asked for

    def _add(self, patterns: tuple[str, ...], queue: str) -> None:
        with self._lock:
            for pattern in patterns:
                self._entries.setdefault((queue, pattern), _Pattern())
        self._changed()

    def _remove(self, patterns: tuple[str, ...], queue: str) -> None:
        with self._lock:
            for pattern in patterns:
                entry = self._entries.pop((queue, pattern), None)
                if entry is not None and entry.sent:
                    self._ending.append((queue, pattern))
        self._changed()

    async def active(self) -> None:
        """Return once all that was asked for is in effect.

        That holds as long as the connection does. Bound it with `asyncio.timeout`.
        """
        await self._until(self._all_active)

    async def _until(self, so: Callable[[], bool]) -> None:
        """Return once something is so. It is asked again whenever a pattern or the connection has changed."""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            while not so():
                watcher.clear()
                await watcher.wait()
        finally:
            self._watchers.discard(watcher)

    def _all_active(self) -> bool:
        with self._lock:
            return self._live and all(e.active for e in self._entries.values())

    def _changed(self) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        if self._writer is not None:
            self._writer.set()
        for watcher in self._watchers:
            watcher.set()

    # For the listener and its session.

    def attach(self) -> None:
        """Begin to work on the running loop."""
        if self._loop is not None:
            raise RuntimeError(f"these {type(self).__name__.lower()} are used by another call of listen")
        self._loop = asyncio.get_running_loop()
        self._ended = False

    def detach(self) -> None:
        """End it."""
        self._loop = None

    def connected(self, writer: asyncio.Event) -> None:
        """Begin a connection, on which nothing has been asked for yet."""
        self._writer = writer
        self._connection(live=True)

    def disconnected(self) -> None:
        """Note that the session ended."""
        self._writer = None
        self._connection(live=False)

    def _connection(self, *, live: bool) -> None:
        with self._lock:
            self._live = live
            self._end_mark = 0
            self._ending.clear()
            for entry in self._entries.values():
                entry.sent = entry.active = False
                entry.retry_at = 0.0
        self._wake()

    def take(self, mark: int) -> list[ClientFrame]:
        """Return the frames to send now. The pong of the ping with that number says that they have taken effect."""
        now = asyncio.get_running_loop().time()
        with self._lock:
            frames = [self._end((pattern,), queue) for queue, pattern in self._ending]
            self._ending.clear()
            new: dict[str, list[str]] = {}
            for (queue, pattern), entry in self._entries.items():
                if self._ended:
                    if entry.sent:
                        entry.sent = entry.active = False
                        self._end_mark = mark
                        frames.append(self._end((pattern,), queue))
                elif not entry.sent and entry.retry_at <= now:
                    entry.sent, entry.mark = True, mark
                    new.setdefault(queue, []).append(pattern)
        for queue, patterns in new.items():
            frames += [
                self._begin(tuple(patterns[i : i + _MOST_PATTERNS]), queue)
                for i in range(0, len(patterns), _MOST_PATTERNS)
            ]
        return frames

    def due_in(self) -> float:
        """Return in how many seconds there is something to send again."""
        now = asyncio.get_running_loop().time()
        with self._lock:
            if self._ended:
                return float("inf")
            return min((max(e.retry_at - now, 0.0) for e in self._entries.values() if not e.sent), default=float("inf"))

    def ponged(self, count: int) -> None:
        """Take the answer to the ping with that number."""
        with self._lock:
            if count >= self._end_mark:
                self._end_mark = 0
            for entry in self._entries.values():
                if entry.sent and not entry.active and count >= entry.mark:
                    entry.active = True
                    entry.retries.reset()
        self._wake()

    def _without(self, e: ErrorFrame) -> bool:
        """Drop what an error of the server refuses for good, and keep for later what cannot be had now.

        False: it is about something else.
        """
        if e.field != self._field or not e.refused:
            return False
        now = asyncio.get_running_loop().time()
        with self._lock:
            for key, entry in list(self._entries.items()):
                if not entry.sent or key[1] not in e.refused:
                    continue
                if e.code == "unavailable":
                    entry.sent = entry.active = False
                    entry.retry_at = now + entry.retries.next()
                else:
                    del self._entries[key]
        self._wake()
        return True

    def _end_all(self) -> None:
        """Have all that was asked for ended, until the next attach."""
        self._ended = True
        self._wake()

    def _all_ended(self) -> bool:
        """Whether the server has taken note, or there is no connection."""
        with self._lock:
            return not self._live or (self._end_mark == 0 and not any(e.sent for e in self._entries.values()))
