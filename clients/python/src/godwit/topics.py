"""Subscribing to topics within a session."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections import deque
from collections.abc import Awaitable, Callable

from .errors import SubscriptionError
from .frames import ErrorFrame, Message, MessageGap, Subscribe, Unsubscribe
from .patterns import Patterns
from .values import check_name, check_topic

__all__ = ["MessageHandler", "Topics"]

log = logging.getLogger("godwit")

# Limits of the messages that wait for the handler. Further ones are dropped and reported as a gap.
_MOST_WAITING = 4096
_MOST_BYTES = 8 << 20

MessageHandler = Callable[[Message], Awaitable[None] | None]
"""Handles one message: a coroutine function, or a plain one, which is run in a thread."""


class Topics(Patterns):
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
        super().__init__(begin=Subscribe, end=Unsubscribe, field="topics")
        self._handle = handle
        self._on_gap = on_gap
        self._on_refused = on_refused
        self._waiting: deque[Message | int | SubscriptionError] = deque()  # an int is a gap
        self._bytes = 0
        self._work = asyncio.Event()
        self._stopping = False

    def subscribe(self, *patterns: str, queue: str = "") -> None:
        """Subscribe to topics or patterns of them: "*" stands for any one token, a final ">" for one or more.

        Of all who subscribe to the same pattern with the same queue, one gets each message. It may be called at any
        time and from any thread, and changes nothing for what is subscribed to already.
        """
        if queue:
            check_name("queue", queue)
        for pattern in patterns:
            check_topic(pattern)
        self._add(patterns, queue)

    def unsubscribe(self, *patterns: str, queue: str = "") -> None:
        """End what `subscribe` with the same queue began. Messages that are on their way still come."""
        self._remove(patterns, queue)

    # For the listener and its session.

    def attach(self) -> None:
        """Begin to work on the running loop."""
        super().attach()
        self._work, self._stopping = asyncio.Event(), False

    def stop(self) -> None:
        """Let `work` return after the message that is being handled."""
        self._stopping = True
        self._work.set()

    def refused(self, e: ErrorFrame) -> bool:
        """Take an error of the server. False: it is about something else."""
        if not self._without(e):
            return False
        if e.code != "unavailable":
            self._waiting.append(SubscriptionError(e.refused, e.code, e.message))
            self._work.set()
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
