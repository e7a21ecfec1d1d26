"""One session: a connection from hello to end."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from contextlib import suppress
from typing import TYPE_CHECKING, TypeVar

from .backoff import CONNECT_BASE, CONNECT_MOST, Backoff
from .connection import Connection
from .errors import GodwitError, GoodbyeError, RefusedError, ServeError, UnreachableError
from .frames import (
    ClientFrame,
    ErrorFrame,
    Goodbye,
    Hello,
    InboxNews,
    Message,
    MessageGap,
    Notification,
    ObjectFrame,
    Ping,
    Pong,
    Recall,
    Registered,
    RegistrationFailed,
    Request,
    ServerFrame,
    Welcome,
)
from .token import Token
from .unread import Unread

if TYPE_CHECKING:
    from .listener import Listener

__all__ = ["Session"]

log = logging.getLogger("godwit")

T = TypeVar("T")

# Seconds that dialling, hello and welcome may take together.
_HANDSHAKE_TIMEOUT = 30.0

# Seconds the server may take to close after its goodbye.
_BYE_PATIENCE = 2.0

# Seconds the server may take to note what was sent last before the connection is closed.
_FINISH_PATIENCE = 1.0


class Session:
    """One connection of a listener."""

    def __init__(self, listener: Listener) -> None:
        self.welcome: Welcome | None = None
        self._l = listener
        self._objects = listener.options.objects
        self._topics = listener.options.topics
        self._workers = listener.workers
        self._token = Token("")
        self._wake = asyncio.Event()
        self._extra: list[ClientFrame] = []
        self._ponged = asyncio.Event()
        self._pings = 0  # sent
        self._pongs = 0
        self._beat = 30.0
        self._last = 0.0  # when something was received
        self._loop = asyncio.get_running_loop()

    async def run(self) -> None:
        """Run until the connection ends, and raise why; or until the listener closes, then return."""
        conn = await self._unless_closing(self._connect())
        if conn is None:
            return
        try:
            welcome = await self._unless_closing(self._open(conn))
            if welcome is not None:
                await self._live(conn, welcome)
        finally:
            await conn.close()

    async def _unless_closing(self, work: Awaitable[T]) -> T | None:
        """Do a part of the handshake. There is nothing to flush before a welcome, so closing abandons it."""
        task = asyncio.ensure_future(work)
        closing = asyncio.ensure_future(self._l.closing.wait())
        try:
            done, _ = await asyncio.wait(
                [task, closing], timeout=_HANDSHAKE_TIMEOUT, return_when=asyncio.FIRST_COMPLETED
            )
            if task in done:
                return task.result()
            if closing in done:
                return None
            raise UnreachableError(f"server did not welcome in {_HANDSHAKE_TIMEOUT:g} s")
        finally:
            closing.cancel()
            if task.cancel():
                await asyncio.wait([task])

    async def _connect(self) -> Connection:
        self._token = await self._l.token()
        return await self._l.dial()

    async def _open(self, conn: Connection) -> Welcome:
        with suppress(UnreachableError):  # the server has ended the session already, and has said why
            await conn.send(self._hello())
        while True:
            match await conn.recv():
                case Welcome() as welcome:
                    return welcome
                case Goodbye() as bye:
                    raise GoodbyeError(bye.reason, bye.retry_after)
                case Unread() as frame:
                    await self._l.report(frame.error)
                case ErrorFrame() as e:
                    raise RefusedError("hello", f"{e.message} ({e.code})")

    def _hello(self) -> Hello:
        options = self._l.options
        return Hello(
            app=self._l.app,
            token=self._token.value,
            recipient=self._l.recipient,
            group=self._l.group,
            device=options.device,
            digest=self._objects.digest if self._objects is not None else "",
            held=tuple(options.held()) if options.held is not None else (),
            window=options.window,
            heartbeat=self._l.heartbeat,
            observe=options.observe,
        )

    async def _live(self, conn: Connection, welcome: Welcome) -> None:
        self.welcome = welcome
        self._beat = max(welcome.heartbeat, 1.0)
        self._last = self._loop.time()
        self._l.outbox.wake = self._wake.set
        if self._objects is not None:
            self._objects.connected(welcome.digest, self._wake)
        if self._topics is not None:
            self._topics.connected(self._wake)
        self._workers.connected(self._wake)
        if welcome.inbox is not None:
            await self._l.call(self._l.options.on_inbox, welcome.inbox)
        await self._l.call(self._l.options.on_connect, welcome)
        sides = [asyncio.create_task(side) for side in (self._read(conn), self._write(conn), self._renew())]
        reader, writer, _ = sides
        try:
            await asyncio.wait(sides, return_when=asyncio.FIRST_COMPLETED)
            if writer.done() and writer.exception() is not None:
                await asyncio.wait([reader], timeout=_BYE_PATIENCE)  # the reader may know why
            for side in sides:
                if side.done():
                    side.result()
        finally:
            for side in sides:
                side.cancel()
            await asyncio.gather(*sides, return_exceptions=True)
            if self._objects is not None:
                self._objects.disconnected()
            if self._topics is not None:
                self._topics.disconnected()
            self._workers.disconnected()

    async def _read(self, conn: Connection) -> None:
        while True:
            frame = await conn.recv()
            self._last = self._loop.time()
            if isinstance(frame, Goodbye):
                # The server closes next; reading on lets the connection end in order. The session's error is the
                # goodbye.
                with suppress(GodwitError, TimeoutError):
                    async with asyncio.timeout(_BYE_PATIENCE):
                        while True:
                            await conn.recv()
                raise GoodbyeError(frame.reason, frame.retry_after)
            await self._received(frame)

    async def _received(self, frame: ServerFrame | None) -> None:
        match frame:
            case Notification():
                self._l.take(frame)
            case Recall():
                await self._l.recall(frame.ids)
            case InboxNews():
                await self._l.call(self._l.options.on_inbox, frame)
            case Unread():
                await self._l.unread(frame)
            case ErrorFrame():
                if self._topics is not None and self._topics.refused(frame):
                    return
                if error := self._workers.refused(frame):
                    await self._not_served(error)
                    return
                log.warning("server refused a frame", extra={"code": frame.code, "detail": frame.message})
                await self._l.call(self._l.options.on_error, frame.error())
            case Pong():
                self._answered(frame)
            case Message() | MessageGap():
                if self._topics is not None:
                    self._topics.received(frame)
            case Request():
                self._workers.asked(frame, self._l.options.window)
            case Registered() | RegistrationFailed() | ObjectFrame():
                if self._objects is not None:
                    self._objects.received(frame)

    async def _not_served(self, error: ServeError | bool) -> None:
        if isinstance(error, bool):
            return  # it is tried again
        if self._workers.on_refused is not None:
            await self._l.call(self._workers.on_refused, error)
        else:
            await self._l.report(error)

    def _answered(self, pong: Pong) -> None:
        self._pongs += 1
        if self._pongs >= self._pings:
            self._ponged.set()
        if self._objects is not None:
            self._objects.received(pong)
        if self._topics is not None:
            self._topics.ponged(self._pongs)
        self._workers.ponged(self._pongs)

    async def _write(self, conn: Connection) -> None:
        """Send acknowledgements, registrations and pings until the listener closes, which ends it with a flush."""
        pinged = self._loop.time()
        probed = False
        while True:
            self._wake.clear()
            closing = self._l.closing.is_set()
            await self._flush(conn, last=closing)
            if closing:
                await self._finish(conn)
                return
            now = self._loop.time()
            silence = now - self._last
            if silence >= 2 * self._beat:
                raise UnreachableError("server was silent for two heartbeats")
            if silence < self._beat:
                probed = False
            if (silence >= self._beat and not probed) or self._digest_due(now - pinged):
                pinged, probed = now, True
                await self._ping(conn)
            await self._rest(min(self._beat / 2, max(pinged + self._beat - now, 0.0) or self._beat / 2))

    def _digest_due(self, since: float) -> bool:
        """Whether to compare digests: at every heartbeat, and when somebody waits for it."""
        return self._objects is not None and (since >= self._beat or self._objects.probing)

    async def _rest(self, look: float) -> None:
        if self._objects is not None:
            look = min(look, self._objects.due_in())
        if self._topics is not None:
            look = min(look, self._topics.due_in())
        look = min(look, self._workers.due_in(), self._l.outbox.due_in())
        closing = asyncio.ensure_future(self._l.closing.wait())
        wake = asyncio.ensure_future(self._wake.wait())
        try:
            await asyncio.wait([closing, wake], timeout=look, return_when=asyncio.FIRST_COMPLETED)
        finally:
            closing.cancel()
            wake.cancel()

    async def _flush(self, conn: Connection, *, last: bool) -> None:
        frames = self._extra + self._l.outbox.take(last=last)
        self._extra = []
        if self._objects is not None:
            frames += await self._objects.take()
        for frame in frames:
            if isinstance(frame, Ping):
                self._pings += 1
                self._ponged.clear()
            await conn.send(frame)
        for frame in self._workers.answers():
            await conn.send(frame)
        new = self._topics.take(self._pings + 1) if self._topics is not None else []
        new += self._workers.take(self._pings + 1)
        for frame in new:
            await conn.send(frame)
        if new:
            await self._ping(conn)  # its pong says that they are in effect

    async def _ping(self, conn: Connection) -> None:
        self._pings += 1
        self._ponged.clear()
        await conn.send(Ping(self._objects.ping() if self._objects is not None else ""))

    async def _finish(self, conn: Connection) -> None:
        """Ask for a pong: when it comes, everything sent before has been handled; registrations are answered later."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_FINISH_PATIENCE):
                await self._ping(conn)
                await self._ponged.wait()
                if self._objects is not None:
                    await self._objects.until_agreed()

    async def _renew(self) -> None:
        """Get a new token before the present one ends, and introduce it with another hello."""
        wait = Backoff(CONNECT_BASE, CONNECT_MOST)
        while True:
            delay = self._l.renew_in(self._token)
            if delay is None:
                await asyncio.Event().wait()  # never; the session ends this task
                return
            await asyncio.sleep(delay)
            before = self._token.value
            while self._token.value == before:
                try:
                    self._token = await self._l.next_token()
                except GodwitError as e:
                    log.warning("no new token", extra={"reason": str(e)})
                if self._token.value == before:
                    await asyncio.sleep(wait.next())  # the source has none yet
            wait.reset()
            self._extra.append(self._hello())
            self._wake.set()
