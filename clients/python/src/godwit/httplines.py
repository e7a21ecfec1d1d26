"""Connections of http.client, and the threads that wait for them."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from email import errors
from functools import partial
from http.client import HTTPConnection, HTTPResponse, HTTPSConnection
from queue import Empty, SimpleQueue
from typing import Any, Generic, TypeVar

from .carrier import MAX_ANSWER, Answer, CarrierError, too_large

__all__ = ["Line", "Lines", "PlainConnection", "Request", "SecureConnection"]

T = TypeVar("T")

Request = tuple[str, str, bytes | None, dict[str, str]]
"""Method, target, content and headers."""

# Bytes that are read at once.
_PIECE = 64 << 10

# For so many seconds after its last answer nobody looks whether a connection still stands: a look costs the busy much.
_FRESH = 0.1

# Defects that the header parser notes without refusing the message.
_BAD_HEADERS = (
    errors.FirstHeaderLineIsContinuationDefect,
    errors.InvalidHeaderDefect,
    errors.MisplacedEnvelopeHeaderDefect,
    errors.MissingHeaderBodySeparatorDefect,
)


class PlainConnection(HTTPConnection):
    """Sends the head of a request and its content in one packet, not in two."""

    _held: list[bytes] | None = None

    def request(self, *args: Any, **options: Any) -> None:
        """Send a request."""
        held: list[bytes] = []
        self._held = held
        try:
            super().request(*args, **options)
        finally:
            self._held = None
        self.send(b"".join(held))

    def send(self, data: Any) -> None:
        """Send some of it, or hold it back."""
        if self._held is None:
            super().send(data)
        else:
            self._held.append(data)


class SecureConnection(PlainConnection, HTTPSConnection):
    """The same over TLS."""


class Line:
    """A connection, made anew when it is needed and has ended. All but `shut` is for its thread alone."""

    def __init__(self, connect: Callable[[], HTTPConnection]) -> None:
        self._connect = connect
        self._connection: HTTPConnection | None = None
        self._socket: socket.socket | None = None  # the connection forgets its own once the server wants to close
        self._response: HTTPResponse | None = None
        self._left: int | None = None  # bytes of the content; None: nobody knows
        self._used = 0.0
        self._shut = False

    def whole(self, request: Request) -> Answer:
        """Make a request and read the answer."""
        status, headers = self.begin(request)
        content = self.piece()
        while piece := content and self.piece():
            content += piece
            if len(content) > MAX_ANSWER:
                raise too_large("the answer")
        return Answer(status, headers, content)

    def begin(self, request: Request) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Make a request and read the head of the answer."""
        connection = self._standing()
        with suppress(ConnectionError):  # a server that has read enough may have answered before it closed
            connection.request(*request)
        self._response = response = connection.getresponse()
        if response.status < 200:
            raise CarrierError(f"the server answers with status {response.status}, which nobody asked for")
        if any(isinstance(d, _BAD_HEADERS) for d in response.msg.defects):
            raise CarrierError("the answer has a header that cannot be read")
        coding, length = response.getheader("transfer-encoding"), response.getheader("content-length")
        if coding and not response.chunked:
            raise CarrierError(f"the answer is in transfer coding {coding!r}, which this client cannot read")
        if length and not coding and not (length.isascii() and length.isdigit()):
            raise CarrierError(f"the answer's length is {length!r}")
        self._left = response.length
        return response.status, tuple((name.lower(), value.strip()) for name, value in response.getheaders())

    def piece(self) -> bytes:
        """Read some of the content; nothing is its end."""
        response = self._response
        if response is None:
            return b""
        piece = b"" if self._left == 0 else response.read1(_PIECE if self._left is None else min(self._left, _PIECE))
        if self._left is not None:
            self._left -= len(piece)
            if self._left and not piece:
                raise CarrierError("the connection ended within the answer")
        if not piece or self._left == 0:
            response.close()
            self._response = None
            self._used = time.monotonic()
            if self._connection is None or self._connection.sock is None:
                self.close()
        return piece

    def _standing(self) -> HTTPConnection:
        connection = self._connection
        if connection is None or self._ended():
            self.close()
            self._connection = connection = self._connect()
            connection.connect()
            self._socket = connection.sock
            if self._shut:
                raise CarrierError("given up before the connection was there")
            self._socket.settimeout(None)  # from here on the event loop has the time, and shut wakes the thread
        return connection

    def _ended(self) -> bool:
        """Whether the server has ended it while it was idle, or has said what nobody asked for."""
        if time.monotonic() - self._used < _FRESH:
            return False
        if self._socket is not None:
            try:
                self._socket.settimeout(0)
                socket.socket.recv(self._socket, 1, socket.MSG_PEEK)  # beneath TLS
            except BlockingIOError:
                self._socket.settimeout(None)
                return False
            except OSError:
                pass
        return True

    def shut(self) -> None:
        """Have what the thread waits for fail, from another thread. It is good for nothing then."""
        self._shut = True
        if self._socket is not None:
            with suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)  # beneath TLS

    def close(self) -> None:
        """Close the connection, if there is one."""
        if self._response is not None:
            self._response.close()
        if self._connection is not None:
            self._connection.close()
        self._connection = self._socket = self._response = None


class _Job(Generic[T]):
    """Something that a thread does with its line, for who waits on an event loop."""

    def __init__(self, work: Callable[[Line], T]) -> None:
        self._work = work
        self._loop = asyncio.get_running_loop()
        self.done: asyncio.Future[T] = self._loop.create_future()
        self._lock = threading.Lock()
        self._line: Line | None = None
        self._given_up = False
        self._outcome: Callable[[], None] | None = None

    def give_up(self) -> None:
        """Do not begin, or have it fail at once; only what is still dialled takes until then."""
        with self._lock:
            self._given_up = True
            if self._line is not None:
                self._line.shut()

    def carry_out(self, line: Line) -> bool:
        """Do it, and say whether the line is good for another. `tell` then tells who waits."""
        with self._lock:
            if self._given_up:
                return True
            self._line = line
        try:
            self._outcome = partial(self.done.set_result, self._work(line))
        except BaseException as e:
            line.close()
            self._outcome = partial(self.done.set_exception, e)
        with self._lock:  # from here on the line is not this job's
            self._line = None
            return not self._given_up

    def tell(self) -> None:
        """Wake who waits with what it brought."""
        with suppress(RuntimeError):  # the loop has been closed: nobody waits
            self._loop.call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if self._outcome is not None and not self.done.done():
            self._outcome()


class Lines:
    """Up to so many threads, each with a line of its own, for what is to be done on one.

    A thread ends after so many idle seconds, or on `close`. None keeps a program from ending.
    """

    def __init__(self, connect: Callable[[], HTTPConnection], most: int, idle: float | None) -> None:
        self._connect = connect
        self._most = most
        self._idle = idle
        self._jobs: SimpleQueue[_Job[Any] | None] = SimpleQueue()
        self._lock = threading.Lock()
        self._threads = 0
        self._unfinished = 0  # jobs; there are as many threads, unless that is too many

    async def run(self, work: Callable[[Line], T]) -> T:
        """Have something done on one of the lines. Cancelling ends that line."""
        job = _Job(work)
        with self._lock:
            self._unfinished += 1
            more = self._threads < min(self._unfinished, self._most)
            if more:
                self._threads += 1
        self._jobs.put(job)
        if more:
            threading.Thread(target=self._serve, name="godwit http", daemon=True).start()
        try:
            return await job.done
        except asyncio.CancelledError:
            job.give_up()
            raise

    def close(self) -> None:
        """Have the threads end after what was begun. Nothing new may come."""
        with self._lock:
            for _ in range(self._threads):
                self._jobs.put(None)

    def _serve(self) -> None:
        line = Line(self._connect)
        while True:
            try:
                job = self._jobs.get(timeout=self._idle)
            except Empty:
                with self._lock:
                    if self._unfinished >= self._threads:
                        continue  # a job is on its way
                    self._threads -= 1
                break
            if job is None:
                break
            if not job.carry_out(line):
                line.close()
                line = Line(self._connect)
            with self._lock:  # before who waits is told: what it asks next has this line, not another
                self._unfinished -= 1
            job.tell()
            del job  # with what it brought
        line.close()
