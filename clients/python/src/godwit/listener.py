"""Listening: one session after the other, and handlers for what they bring."""

from __future__ import annotations

import asyncio
import inspect
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar, cast

from .backoff import CONNECT_BASE, CONNECT_MOST, Backoff
from .connection import Dial
from .errors import (
    GodwitError,
    GoodbyeError,
    NackAfter,
    ProblemError,
    RefusedError,
    ServeError,
    SubscriptionError,
    UndecodableError,
    UnreachableError,
)
from .frames import MAX_REPLY, InboxNews, Nack, Notification, Reply, ReplyFrame, Welcome
from .objects import Objects
from .outbox import ACK_DELAY, MAX_ACK_DELAY, Outbox
from .seen import IdSet
from .session import Session
from .token import Token, TokenSource
from .topics import Topics
from .unread import Unread, cut_reason
from .values import Duration, seconds
from .workers import Workers, unasked

__all__ = ["MAX_WINDOW", "Handler", "ListenOptions", "Listener"]

log = logging.getLogger("godwit")

T = TypeVar("T")

Handler = Callable[[Notification], Awaitable[Reply | None]]
"""Handles one notification. Returning acknowledges it, and a Reply answers it; an exception asks for redelivery
(NackAfter says when)."""

# How many answers to notifications a listener keeps: 4 MB of the largest. If an answer was lost with its connection and
# is not kept any more, the handler is called again.
_KEPT_REPLIES = 64

# The seconds for which a notification is put off whose answer the server would not take.
_BAD_REPLY = 300.0

# The largest window a server grants.
MAX_WINDOW = 1024

# How many seconds a session must have lasted for the next connect to be tried at once: a server that welcomes and
# closes would otherwise be tried in a loop.
_STABLE = 5.0

# How many seconds the acknowledgements of the last handlers may take to go out.
_FLUSH_PATIENCE = 2.0

# The shortest and the longest time a frame can ask for, in seconds: none at all leaves it to the server.
_AT_ONCE = 0.001
_LONGEST = 24 * 3600.0

# Trying again after these would not help.
_FINAL = frozenset(
    {
        "answer",
        "bad_hello",
        "erased",
        "forbidden",
        "hello",
        "permission_denied",
        "replaced",
        "unimplemented",
        "unknown_app",
    }
)
_BAD_TOKEN = frozenset({"unauthenticated", "token_expired"})


async def settle(value: Awaitable[T] | T) -> T:
    """Return what a callback returned, awaited if it is a coroutine function's."""
    if inspect.isawaitable(value):
        return await cast("Awaitable[T]", value)
    return value


@dataclass(slots=True, kw_only=True)
class ListenOptions:
    """How to listen. The client's `listen` explains each."""

    group: str = ""
    device: str = ""
    window: int = 0
    heartbeat: Duration = 0.0
    ack_delay: Duration = ACK_DELAY
    concurrency: int = 1
    peek: bool = False
    observe: bool = False
    on_recall: Callable[[Sequence[str]], Awaitable[None] | None] | None = None
    on_inbox: Callable[[InboxNews], Awaitable[None] | None] | None = None
    held: Callable[[], Sequence[str]] | None = None
    on_connect: Callable[[Welcome], Awaitable[None] | None] | None = None
    on_disconnect: Callable[[GodwitError, float], Awaitable[None] | None] | None = None
    on_error: Callable[[GodwitError], Awaitable[None] | None] | None = None
    objects: Objects | None = None
    topics: Topics | None = None
    workers: Workers | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing is acknowledged."""
        return self.peek or self.observe


@dataclass(slots=True)
class _Job:
    notification: Notification
    recalled: bool = False


class Listener:
    """One call of `listen`."""

    def __init__(
        self,
        dial: Dial,
        recipient: str,
        handle: Handler | None,
        options: ListenOptions,
        *,
        app: str = "",
        token: TokenSource | None = None,
        key: str = "",
        timeout: float = 30.0,
    ) -> None:
        if not 0 <= options.window <= MAX_WINDOW:
            raise ValueError(f"window {options.window} is not between 1 and {MAX_WINDOW}")
        ack_delay = seconds(options.ack_delay)
        if not 0 <= ack_delay <= MAX_ACK_DELAY:
            raise ValueError(f"ack_delay {ack_delay:g} s is not between 0 and {MAX_ACK_DELAY:g} s")
        if options.concurrency < 1:
            raise ValueError(f"concurrency {options.concurrency} is less than 1")
        if options.peek and not key:
            raise ValueError("peek needs an API key with role read")
        if options.objects is not None and options.group not in ("", options.objects.group):
            raise ValueError(f"group is {options.group} but that of the objects is {options.objects.group}")
        self.dial = dial
        self.recipient = recipient
        self.options = options
        self.app = app
        self.group = options.group or (options.objects.group if options.objects else "")
        self.heartbeat = seconds(options.heartbeat)
        self.outbox = Outbox(ack_delay, options.window)
        self.closing = asyncio.Event()
        self._handle = handle
        self._token = None if options.peek else token
        self._key = key
        self._timeout = timeout
        self._stopping = asyncio.Event()
        self._jobs: asyncio.Queue[_Job | None] = asyncio.Queue()
        self._held: dict[str, _Job] = {}
        self._seen = IdSet()
        self._replies: dict[str, ReplyFrame] = {}  # the last ones, by notification
        self.workers = options.workers if options.workers is not None else Workers(unasked)
        self._presented = ""  # the token that the last connection began with

    def stop(self) -> None:
        """End gently: handlers that run finish, their acknowledgements go out, and `run` returns."""
        self._stopping.set()

    async def run(self) -> None:
        """Listen until `stop`, cancellation, or a refusal, which is raised."""
        objects, topics = self.options.objects, self.options.topics
        if objects is not None:
            objects.attach()
        if topics is not None:
            topics.attach()
        self.workers.attach()
        workers = [asyncio.create_task(self._work()) for _ in range(self.options.concurrency)]
        if objects is not None:
            workers.append(asyncio.create_task(objects.work()))
        if topics is not None:
            workers.append(asyncio.create_task(topics.work(self.report)))
        connector = asyncio.create_task(self._connect())
        stopper = asyncio.create_task(self._stopping.wait())
        try:
            await asyncio.wait([connector, stopper, *workers], return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            for w in workers:
                w.cancel()
            raise
        finally:
            stopper.cancel()
            if connector.done():
                for w in workers:
                    w.cancel()
            await self._end(workers, connector)
        if connector.done() and not connector.cancelled():
            connector.result()
        for w in workers:
            if not w.cancelled():
                w.result()

    async def _end(self, workers: list[asyncio.Task[None]], connector: asyncio.Task[None]) -> None:
        while not self._jobs.empty():
            self._jobs.get_nowait()  # not begun: they come again
        for _ in range(self.options.concurrency):
            self._jobs.put_nowait(None)
        if self.options.objects is not None:
            self.options.objects.stop()
        if self.options.topics is not None:
            self.options.topics.stop()
        try:
            if not connector.done():
                workers.append(asyncio.create_task(self.workers.drain()))
            await asyncio.wait(workers)
            self.closing.set()
            await asyncio.wait([connector], timeout=_FLUSH_PATIENCE)
        finally:
            for task in (*workers, connector):
                task.cancel()
            await asyncio.gather(*workers, connector, return_exceptions=True)
            if self.options.objects is not None:
                await self.options.objects.detach()
            if self.options.topics is not None:
                self.options.topics.detach()
            await self.workers.abandon()
            self.workers.detach()

    async def _connect(self) -> None:
        """Make one session after the other until closing."""
        wait = Backoff(CONNECT_BASE, CONNECT_MOST)
        failures = 0
        loop = asyncio.get_running_loop()
        while True:
            session = Session(self)
            start = loop.time()
            try:
                await session.run()
            except GodwitError as e:
                error = e
            else:
                return
            if self.closing.is_set():
                return
            if refusal := await self._permanent(error):
                raise refusal
            if session.welcome is not None and loop.time() - start >= _STABLE:
                failures = 0
                wait.reset()
            delay = wait.next() if failures else 0.0  # the first retry is at once
            failures += 1
            delay = max(delay, _asked_to_wait(error))
            await self.call(self.options.on_disconnect, error, delay)
            log.debug("connection ended", extra={"reason": str(error), "retry_in": delay})
            try:
                async with asyncio.timeout(delay):
                    await self.closing.wait()
                return
            except TimeoutError:
                pass

    async def call(self, callback: Callable[..., Awaitable[None] | None] | None, *args: object) -> None:
        """Run a callback. What it raises ends nothing."""
        if callback is None:
            return
        try:
            await settle(callback(*args))
        except Exception:
            log.exception("callback failed")

    async def _permanent(self, error: GodwitError) -> RefusedError | None:
        """Return the error for which connecting again would not help; None: it may."""
        match error:
            case GoodbyeError() | RefusedError():
                reason, detail = error.reason, str(error)
            case ProblemError() if not error.problem.temporary:
                reason, detail = "unauthenticated" if error.status == 401 else "answer", str(error)
            case _:
                return None
        if reason in _BAD_TOKEN:
            # The source may have a better token by now. The same one again is refused again.
            if self._token is not None and await self._token_is_new():
                return None
        elif reason not in _FINAL:
            return None
        refusal = error if isinstance(error, RefusedError) else RefusedError(reason, detail)
        if refusal is not error:
            refusal.__cause__ = error
        return refusal

    async def _token_is_new(self) -> bool:
        try:
            return (await self.next_token()).value != self._presented
        except GodwitError:
            return True  # it is asked again at the next connect

    async def token(self) -> Token:
        """Return the token for the first hello of a connection."""
        token = await self.next_token()
        self._presented = token.value
        return token

    async def next_token(self) -> Token:
        """Return the token that follows during a connection.

        If the one before ends while it is on its way, the server has not seen it: it is good for the next connection.
        """
        if self._token is None:
            return Token(self._key if self.options.peek else "")
        try:
            async with asyncio.timeout(self._timeout):
                got: Token | str = await settle(self._token())
        except Exception as e:
            raise UnreachableError(f"get token: {str(e) or type(e).__name__}") from e
        return got if isinstance(got, Token) else Token(got)

    def renew_in(self, token: Token) -> float | None:
        """Return in how many seconds to introduce the next token; None: never."""
        return None if self._token is None else token.renew_in(time.time())

    async def _work(self) -> None:
        while (job := await self._jobs.get()) is not None:
            if not job.recalled:
                await self._handle_one(job.notification)
            self._held.pop(job.notification.id, None)

    async def _handle_one(self, n: Notification) -> None:
        assert self._handle is not None
        try:
            reply = await self._handle(n)
        except NackAfter as e:
            after = min(max(_AT_ONCE, e.after), _LONGEST)  # in this order also of what is no number
            self._refuse(n, Nack((n.id,), after, cut_reason(e.reason)))
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.warning("notification handler was cancelled", extra={"id": n.id})
            self._refuse(n, Nack((n.id,)))
        except Exception:
            log.exception("notification handler failed", extra={"id": n.id})
            self._refuse(n, Nack((n.id,)))
        else:
            self._handled(n, reply)

    def _handled(self, n: Notification, reply: Reply | None) -> None:
        if not isinstance(reply, Reply):
            self._seen.add(n.id)
            if not self.options.silent:
                self.outbox.ack(n.id)
            return
        try:
            reply.check(MAX_REPLY)
        except ValueError as e:
            log.error("notification handler gave a bad reply", extra={"id": n.id, "reason": str(e)})
            self._refuse(n, Nack((n.id,), _BAD_REPLY, cut_reason(f"reply: {e}")))
            return
        self._replies[n.id] = frame = reply.to(n)
        if len(self._replies) > _KEPT_REPLIES:
            del self._replies[next(iter(self._replies))]
        if not self.options.silent:
            self.outbox.reply(frame)

    def _refuse(self, n: Notification, nack: Nack) -> None:
        job = self._held.get(n.id)
        if not self.options.silent and job is not None and not job.recalled:
            self.outbox.nack(nack)

    def take(self, n: Notification) -> None:
        """Queue a notification for the handlers, unless they have it or had it."""
        if self._handle is None or n.id in self._held or self._stopping.is_set():
            return
        if n.id in self._seen:
            if not self.options.silent:
                self.outbox.ack(n.id)  # the first acknowledgement was lost with its connection
            return
        if n.id in self._replies:
            if not self.options.silent:
                self.outbox.reply(self._replies[n.id])  # it was lost with its connection
            return
        if len(self._held) >= MAX_WINDOW:
            return  # more than any window: it comes again
        self._held[n.id] = job = _Job(n)
        self._jobs.put_nowait(job)

    async def unread(self, frame: Unread) -> None:
        """Answer what cannot be read.

        A notification comes again after a while, for a program that can read it, or until the server gives it up.
        """
        name = frame.error.id
        if name and self._handle is None:
            return  # the program is here for objects alone
        if name and (name in self._held or name in self._seen):
            if name in self._seen and not self.options.silent:
                self.outbox.ack(name)  # an earlier copy could be read
            return
        if name and not self.options.silent:
            self.outbox.nack(Nack((name,), frame.pause, cut_reason(frame.error.reason)))
        await self.report(frame.error)

    async def report(self, error: UndecodableError | SubscriptionError | ServeError) -> None:
        """Tell the program what it would not know of."""
        log.error("listening goes on after an error", extra={"reason": str(error)})
        await self.call(self.options.on_error, error)

    async def recall(self, ids: Sequence[str]) -> None:
        """Drop notifications that were settled elsewhere or withdrawn, and tell the program."""
        for name in ids:
            if job := self._held.get(name):
                job.recalled = True
        await self.call(self.options.on_recall, ids)


def _asked_to_wait(error: GodwitError) -> float:
    return error.retry_after if isinstance(error, GoodbyeError | ProblemError) else 0.0
