"""Subscribing to topics within a session."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

from .backoff import CONNECT_BASE, CONNECT_MOST, Backoff
from .errors import SubscriptionError
from .frames import ClientFrame, ErrorFrame, Message, MessageGap, Subscribe, Unsubscribe
from .values import check_name, check_topic

__all__ = ["MessageHandler", "Topics"]

log = logging.getLogger("godwit")

# How many patterns one frame names.
_MOST_PATTERNS = 256

# What waits for the handler. More is dropped and told as a gap.
_MOST_WAITING = 4096
_MOST_BYTES = 8 << 20

MessageHandler = Callable[[Message], Awaitable[None] | None]
"""Handles one message: a coroutine function, or a plain one, which is run in a thread."""


@dataclass(slots=True)
class _Subscription:
    """A pattern with its queue, and how far it is on this connection."""

    sent: bool = False
    active: bool = False
    mark: int = 0
    """The ping whose pong makes it active."""
    retry_at: float = 0.0
    retries: Backoff = field(default_factory=lambda: Backoff(CONNECT_BASE, CONNECT_MOST))


class Topics:
    """What a program subscribes to. Give it to `listen`.

    Messages come at most once: what is published while there is no connection is missed. On every new connection the
    subscriptions are made again. handle is called for one message after the other; one that it fails on is not sent
    again. A session gets each message once, however many of its patterns match.

    on_gap: is told, before the next message, how many were dropped because this program or its connection was too slow.
    on_refused: is told of patterns that the server refused for good, which are dropped; else `listen`'s on_error is.
    """

    def __init__(
        self,
        handle: MessageHandler,
        *,
        on_gap: Callable[[int], Awaitable[None] | None] | None = None,
        on_refused: Callable[[SubscriptionError], Awaitable[None] | None] | None = None,
    ) -> None:
        self._handle = handle
        self._on_gap = on_gap
        self._on_refused = on_refused
        self._lock = threading.Lock()
        self._entries: dict[tuple[str, str], _Subscription] = {}  # by queue and pattern
        self._ending: list[tuple[str, str]] = []  # to be unsubscribed from on this connection
        self._waiting: deque[Message | int | SubscriptionError] = deque()  # an int is a gap
        self._bytes = 0
        self._live = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: asyncio.Event | None = None  # wakes the session's writer
        self._work = asyncio.Event()
        self._stopping = False
        self._watchers: set[asyncio.Event] = set()

    def subscribe(self, *patterns: str, queue: str = "") -> None:
        """Subscribe to topics or patterns of them: "*" stands for any one token, a final ">" for one or more.

        Of all who subscribe to the same pattern with the same queue, one gets each message. It may be called at any
        time and from any thread, and changes nothing for what is subscribed to already.
        """
        if queue:
            check_name("queue", queue)
        for pattern in patterns:
            check_topic(pattern)
        with self._lock:
            for pattern in patterns:
                self._entries.setdefault((queue, pattern), _Subscription())
        self._changed()

    def unsubscribe(self, *patterns: str, queue: str = "") -> None:
        """End what `subscribe` with the same queue began. Messages that are on their way still come."""
        with self._lock:
            for pattern in patterns:
                entry = self._entries.pop((queue, pattern), None)
                if entry is not None and entry.sent:
                    self._ending.append((queue, pattern))
        self._changed()

    async def active(self) -> None:
        """Return once all subscriptions are in effect: what is published from then on comes.

        That holds as long as the connection does. Bound it with `asyncio.timeout`.
        """
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            while not self._all_active():
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
            raise RuntimeError("these topics are used by another call of listen")
        self._loop = asyncio.get_running_loop()
        self._work, self._stopping = asyncio.Event(), False

    def detach(self) -> None:
        """End it."""
        self._loop = None

    def stop(self) -> None:
        """Let `work` return after the message that is being handled."""
        self._stopping = True
        self._work.set()

    def connected(self, writer: asyncio.Event) -> None:
        """Begin a connection, on which nothing is subscribed yet."""
        self._writer = writer
        self._connection(live=True)

    def disconnected(self) -> None:
        """Note that the session ended."""
        self._writer = None
        self._connection(live=False)

    def _connection(self, *, live: bool) -> None:
        with self._lock:
            self._live = live
            self._ending.clear()
            for entry in self._entries.values():
                entry.sent = entry.active = False
                entry.retry_at = 0.0
        self._wake()

    def take(self, mark: int) -> list[ClientFrame]:
        """Return the frames to send now. The pong of the ping with that number says that the subscriptions are made."""
        now = asyncio.get_running_loop().time()
        with self._lock:
            frames: list[ClientFrame] = [Unsubscribe((pattern,), queue) for queue, pattern in self._ending]
            self._ending.clear()
            new: dict[str, list[str]] = {}
            for (queue, pattern), entry in self._entries.items():
                if not entry.sent and entry.retry_at <= now:
                    entry.sent, entry.mark = True, mark
                    new.setdefault(queue, []).append(pattern)
        for queue, patterns in new.items():
            frames += [
                Subscribe(tuple(patterns[i : i + _MOST_PATTERNS]), queue)
                for i in range(0, len(patterns), _MOST_PATTERNS)
            ]
        return frames

    def due_in(self) -> float:
        """Return in how many seconds there is something to send again."""
        now = asyncio.get_running_loop().time()
        with self._lock:
            return min((max(e.retry_at - now, 0.0) for e in self._entries.values() if not e.sent), default=float("inf"))

    def ponged(self, count: int) -> None:
        """Take the answer to the ping with that number."""
        with self._lock:
            for entry in self._entries.values():
                if entry.sent and not entry.active and count >= entry.mark:
                    entry.active = True
                    entry.retries.reset()
        self._wake()

    def refused(self, e: ErrorFrame) -> bool:
        """Take an error of the server. False: it is about something else."""
        if e.field != "topics" or not e.refused:
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
        if e.code != "unavailable":
            self._waiting.append(SubscriptionError(e.refused, e.code, e.message))
            self._work.set()
        self._wake()
        return True

    def received(self, frame: Message | MessageGap) -> None:
        """Take a message for the handler, or the news of a gap. The connection does not wait for the handler."""
        gap = frame.count if isinstance(frame, MessageGap) else 0
        if isinstance(frame, Message):
            size = len(frame.data)
            if len(self._waiting) < _MOST_WAITING and self._bytes + size <= _MOST_BYTES:
                self._waiting.append(frame)
                self._bytes += size
            else:
                gap = 1
        if gap:
            last = self._waiting[-1] if self._waiting else None
            if isinstance(last, int):
                self._waiting[-1] = last + gap
            else:
                self._waiting.append(gap)
        self._work.set()

    async def work(self, report: Callable[[SubscriptionError], Awaitable[None]]) -> None:
        """Hand what has come to the callbacks, one at a time, until `stop`; report is told of what nobody else is."""
        while not self._stopping:
            await self._work.wait()
            self._work.clear()
            while self._waiting and not self._stopping:
                match self._waiting.popleft():
                    case Message() as message:
                        self._bytes -= len(message.data)
                        await _call(self._handle, message)
                    case int() as gap:
                        await _call(self._on_gap, gap)
                    case SubscriptionError() as error:
                        await (report(error) if self._on_refused is None else _call(self._on_refused, error))


async def _call(callback: Callable[..., Awaitable[None] | None] | None, what: object) -> None:
    """Run a callback, a plain function in a thread. What it raises ends nothing."""
    if callback is None:
        return
    try:
        if inspect.iscoroutinefunction(callback):
            await callback(what)
        else:
            result = await asyncio.to_thread(callback, what)
            if inspect.isawaitable(result):
                await result
    except asyncio.CancelledError:
        raise
    except Exception:
        log.exception("message handler failed")
