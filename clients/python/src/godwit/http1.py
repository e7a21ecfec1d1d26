"""HTTP/1.1 over asyncio: as much of it as a client of one server needs."""

from __future__ import annotations

import asyncio
import json
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any, Protocol
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

__all__ = ["HTTP1", "Answer", "Carrier", "CarrierError", "Streamed"]

# Idle connections kept to the server; as many publishers may run without dialling again and again.
_IDLE_CONNECTIONS = 128

# Seconds that an idle connection is kept. Later it might end just when something is sent.
_IDLE_TIME = 5.0

# Bytes of the head of an answer, of an answer that is read whole, and of what is read at once.
_MAX_HEAD = 64 << 10
_MAX_ANSWER = 256 << 20
_PIECE = 64 << 10

# How long the end of a TLS connection may take, in seconds.
_CLOSE_TIMEOUT = 1.0

_HEX = frozenset(b"0123456789abcdefABCDEF")


class CarrierError(Exception):
    """The server could not be reached, or what came is no HTTP."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer, read whole."""

    status: int
    headers: tuple[tuple[str, str], ...]
    """In the order they came, names in small letters."""
    content: bytes

    @property
    def success(self) -> bool:
        """Whether the server did what it was asked."""
        return 200 <= self.status < 300

    def header(self, name: str) -> str | None:
        """Return the first header of a name, which is in small letters."""
        return next((value for key, value in self.headers if key == name), None)

    def json(self) -> Any:
        """Return the JSON value of the content, or raise ValueError."""
        return json.loads(self.content)


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer whose content is read piece by piece."""

    status: int
    headers: tuple[tuple[str, str], ...]
    pieces: AsyncGenerator[bytes, None]

    async def whole(self) -> Answer:
        """Read what is left of it."""
        content = bytearray()
        async for piece in self.pieces:
            content += piece
            if len(content) > _MAX_ANSWER:
                raise CarrierError(f"the answer is larger than {_MAX_ANSWER >> 20} MB")
        return Answer(self.status, self.headers, bytes(content))

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Go through its lines, as they come."""
        rest = bytearray()
        async for piece in self.pieces:
            rest += piece
            if b"\n" not in piece:
                if len(rest) > _MAX_ANSWER:
                    raise CarrierError(f"a line is larger than {_MAX_ANSWER >> 20} MB")
                continue
            *lines, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in lines:
                yield bytes(line)
        if rest:
            yield bytes(rest)


class Carrier(Protocol):
    """Carries requests to one server. It raises CarrierError, and TimeoutError."""

    def stream(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        timeout: float,
        silence: float,
    ) -> AbstractAsyncContextManager[Streamed]:
        """Make a request; after so many seconds without an answer, or of silence within it, it is given up."""

    async def close(self) -> None:
        """Close the connections."""


class _Line:
    """A connection, which carries one request after the other."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.idle_since = 0.0
        self.reusable = False  # says the answer
        self.complete = False  # the answer was read to its end

    def drop(self) -> None:
        """End it without waiting for anything."""
        self.writer.transport.abort()

    async def ask(self, head: bytes, content: bytes) -> None:
        self.reusable = self.complete = False
        with suppress(ConnectionError):  # a server that has read enough may have answered before it closed
            self.writer.write(head + content)
            await self.writer.drain()

    async def head(self) -> tuple[int, tuple[tuple[str, str], ...]]:
        """Read the head of the answer, after those that only say that one is coming."""
        while True:
            first, *lines = (await self.reader.readuntil(b"\r\n\r\n"))[:-4].split(b"\r\n")
            version, _, rest = first.partition(b" ")
            if version not in (b"HTTP/1.1", b"HTTP/1.0") or not rest[:3].isdigit():
                raise CarrierError("what answers does not speak HTTP/1.1")
            status = int(rest[:3])
            if status == 101 or status < 100:
                raise CarrierError(f"the server answers with status {status}, which nobody asked for")
            if status >= 200:
                break
        headers = []
        for line in lines:
            name, colon, value = line.decode("latin-1").partition(":")
            if not colon or not name or name != name.strip():
                raise CarrierError("the answer has a header that cannot be read")
            headers.append((name.lower(), value.strip()))
        self.reusable = version == b"HTTP/1.1" and _token(headers, "connection") != "close"
        return status, tuple(headers)

    async def patiently(self, pieces: AsyncGenerator[bytes, None], silence: float) -> AsyncGenerator[bytes, None]:
        """Go through what comes, unless nothing comes for so many seconds."""
        async with aclosing(pieces):
            while True:
                try:
                    async with asyncio.timeout(silence):
                        piece = await anext(pieces)
                except StopAsyncIteration:
                    self.complete = True
                    return
                yield piece

    async def pieces(
        self, method: str, status: int, headers: tuple[tuple[str, str], ...]
    ) -> AsyncGenerator[bytes, None]:
        """Read the content."""
        if method == "HEAD" or status in (204, 304):
            return
        if coding := _token(headers, "transfer-encoding"):
            if coding != "chunked":
                raise CarrierError(f"the answer is in transfer coding {coding!r}, which this client cannot read")
            while size := _size((await self.reader.readuntil(b"\r\n"))[:-2].partition(b";")[0].strip()):
                async for piece in self._read(size):
                    yield piece
                if await self.reader.readexactly(2) != b"\r\n":
                    raise CarrierError("the answer's chunks cannot be read")
            while await self.reader.readuntil(b"\r\n") != b"\r\n":
                pass  # a trailer
        elif (length := _token(headers, "content-length")) is not None:
            if not (length.isascii() and length.isdigit()):
                raise CarrierError(f"the answer's length is {length!r}")
            async for piece in self._read(int(length)):
                yield piece
        else:
            self.reusable = False
            while piece := await self.reader.read(_PIECE):
                yield piece

    async def _read(self, left: int) -> AsyncGenerator[bytes, None]:
        while left:
            piece = await self.reader.read(min(left, _PIECE))
            if not piece:
                raise CarrierError("the connection ended within the answer")
            left -= len(piece)
            yield piece


def _token(headers: Any, name: str) -> str | None:
    return next((value.lower() for key, value in headers if key == name), None)


def _size(text: bytes) -> int:
    if not text or len(text) > 16 or not _HEX.issuperset(text):
        raise CarrierError("the answer's chunks cannot be read")
    return int(text, 16)


class HTTP1:
    """A Carrier of its own. It goes through the proxy that the environment names, if it names one for the server."""

    def __init__(self, base: str, tls: ssl.SSLContext | None) -> None:
        self._url = urlsplit(base)
        self._secure = self._url.scheme == "https"
        self._host = self._url.hostname or ""
        self._port = self._url.port or (443 if self._secure else 80)
        self._authority = self._url.netloc.rpartition("@")[2]
        self._tls = tls
        self._idle: list[_Line] = []

    async def close(self) -> None:
        """Close idle connections."""
        lines, self._idle = self._idle, []
        for line in lines:
            line.writer.close()
        for line in lines:
            with suppress(OSError, TimeoutError):
                await line.writer.wait_closed()

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes | None,
        *,
        timeout: float,
        silence: float,
    ) -> AsyncIterator[Streamed]:
        """Make a request; after so many seconds without an answer, or of silence within it, it is given up."""
        head = self._head(method, target, headers, content)
        line: _Line | None = None
        try:
            async with asyncio.timeout(timeout):
                line = self._take() or await self._dial()
                await line.ask(head, content or b"")
                status, got = await line.head()
            async with aclosing(line.patiently(line.pieces(method, status, got), silence)) as pieces:
                yield Streamed(status, got, pieces)
        except (asyncio.IncompleteReadError, asyncio.LimitOverrunError) as e:
            raise CarrierError("the connection ended before the answer" if isinstance(e, EOFError) else str(e)) from e
        except TimeoutError:
            raise
        except OSError as e:
            raise CarrierError(str(e) or type(e).__name__) from e
        finally:
            if line is not None:
                self._give(line)

    def _head(self, method: str, target: str, headers: Mapping[str, str], content: bytes | None) -> bytes:
        proxy = None if self._secure else self._proxy()
        place = f"http://{self._authority}" if proxy else ""
        all_headers = {"Host": self._authority, **headers}
        if content is not None or method in ("POST", "PUT", "PATCH"):
            all_headers["Content-Length"] = str(len(content or b""))
        if proxy:
            all_headers |= _proxy_credentials(proxy)
        for name, value in all_headers.items():
            if not value.isprintable() or not all(
                c <= "\xff" for c in value
            ):  # said without the value: it may be a key
                raise ValueError(
                    f"header {name} has characters that no header may have; is a line break in the API key?"
                )
        lines = [f"{method} {place}{self._url.path}{target} HTTP/1.1", *(f"{k}: {v}" for k, v in all_headers.items())]
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")

    def _take(self) -> _Line | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            line = self._idle.pop()
            if now - line.idle_since < _IDLE_TIME and not line.reader.at_eof() and not line.writer.is_closing():
                return line
            line.drop()
        return None

    def _give(self, line: _Line) -> None:
        if not line.complete or not line.reusable or len(self._idle) >= _IDLE_CONNECTIONS:
            line.drop()
            return
        line.idle_since = asyncio.get_running_loop().time()
        self._idle.append(line)

    def _context(self) -> ssl.SSLContext:
        if self._tls is None:
            self._tls = ssl.create_default_context()
        return self._tls

    def _proxy(self) -> SplitResult | None:
        url = getproxies().get(self._url.scheme, "")
        if not url or proxy_bypass(self._authority):
            return None
        proxy = urlsplit(url if "://" in url else f"http://{url}")
        if proxy.scheme != "http":
            raise CarrierError(
                f"the environment names a proxy of scheme {proxy.scheme!r}; give the client an httpx.AsyncClient"
            )
        return proxy

    async def _dial(self) -> _Line:
        proxy = self._proxy()
        if proxy is None:
            options: dict[str, Any] = {}
            if self._secure:
                options = {"ssl": self._context(), "ssl_shutdown_timeout": _CLOSE_TIMEOUT}
            return _Line(*await asyncio.open_connection(self._host, self._port, limit=_MAX_HEAD, **options))
        line = _Line(*await asyncio.open_connection(proxy.hostname, proxy.port or 80, limit=_MAX_HEAD))
        if self._secure:
            try:
                await self._tunnel(line, proxy)
            except BaseException:
                line.drop()
                raise
        return line

    async def _tunnel(self, line: _Line, proxy: SplitResult) -> None:
        host = f"[{self._host}]" if ":" in self._host else self._host
        place = f"{host}:{self._port}"
        headers = {"Host": place, **_proxy_credentials(proxy)}
        head = "".join([f"CONNECT {place} HTTP/1.1\r\n", *(f"{k}: {v}\r\n" for k, v in headers.items()), "\r\n"])
        await line.ask(head.encode("latin-1"), b"")
        status, _ = await line.head()
        if status >= 300:
            raise CarrierError(f"the proxy at {proxy.hostname} answers with status {status}")
        await line.writer.start_tls(self._context(), server_hostname=self._host)


def _proxy_credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(pair.encode()).decode()}
