"""Requests by the standard library's http.client, which blocks: threads do it, each with a connection of its own."""

from __future__ import annotations

import asyncio
import ssl
from base64 import b64encode
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager
from functools import cached_property, partial
from http.client import HTTPConnection, HTTPException
from urllib.parse import SplitResult, unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from .carrier import Answer, CarrierError, Streamed
from .httplines import Line, Lines, PlainConnection, Request, SecureConnection

__all__ = ["HTTP"]

# Connections to the server; what is asked beyond that waits for one.
_CONNECTIONS = 256

# Seconds that an idle connection is kept. Later it might end just when something is sent.
_IDLE_TIME = 5.0


class HTTP:
    """A Carrier of its own. It goes through the proxy that the environment names, if it names one for the server."""

    def __init__(self, base: str, tls: ssl.SSLContext | None) -> None:
        self._url = urlsplit(base)
        self._secure = self._url.scheme == "https"
        self._authority = self._url.netloc.rpartition("@")[2]
        self._tls = tls
        self._lines: Lines | None = None

    async def close(self) -> None:
        """Close idle connections."""
        lines, self._lines = self._lines, None
        if lines is not None:
            lines.close()

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None, *, timeout: float
    ) -> Answer:
        """Make a request and read its answer whole; after so many seconds both are given up."""
        request = self._request(method, target, headers, content)
        if self._lines is None:
            self._lines = Lines(partial(self._connection, timeout), _CONNECTIONS, _IDLE_TIME)
        try:
            async with asyncio.timeout(timeout):
                return await self._lines.run(partial(Line.whole, request=request))
        except (HTTPException, OSError) as e:
            raise _reason(e) from e

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str], *, timeout: float, silence: float
    ) -> AsyncIterator[Streamed]:
        """Get what is read piece by piece; after so long without an answer, or a silence within it, it is given up."""
        request = self._request("GET", target, headers, None)
        line = Lines(partial(self._connection, timeout), 1, None)
        try:
            async with asyncio.timeout(timeout):
                status, got = await line.run(partial(Line.begin, request=request))
            async with aclosing(_pieces(line, silence)) as pieces:
                yield Streamed(status, got, pieces)
        except (HTTPException, OSError) as e:
            raise _reason(e) from e
        finally:
            line.close()

    def _request(self, method: str, target: str, headers: Mapping[str, str], content: bytes | None) -> Request:
        place = self._url.path + target
        all_headers = {"Host": self._authority, **headers}
        if not self._secure and (proxy := self._proxy):
            place = f"http://{self._authority}{place}"
            all_headers |= _proxy_credentials(proxy)
        for name, value in all_headers.items():
            if not value.isprintable() or max(value, default="") > "\xff":  # said without the value: it may be a key
                raise ValueError(
                    f"header {name} has characters that no header may have; is a line break in the API key?"
                )
        return method, place, content, all_headers

    def _connection(self, timeout: float) -> HTTPConnection:
        """Return one that is not dialled yet; dialling may take so many seconds."""
        host, port = self._url.hostname or "", self._url.port or (443 if self._secure else 80)
        near, near_port = host, port
        if proxy := self._proxy:
            near, near_port = proxy.hostname or "", proxy.port or 80
        if not self._secure:
            return PlainConnection(near, near_port, timeout=timeout)
        if self._tls is None:
            self._tls = ssl.create_default_context()
        connection = SecureConnection(near, near_port, timeout=timeout, context=self._tls)
        if proxy:
            connection.set_tunnel(host, port, _proxy_credentials(proxy))
        return connection

    @cached_property
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


def _reason(error: HTTPException | OSError) -> Exception:
    return error if isinstance(error, TimeoutError) else CarrierError(str(error) or type(error).__name__)


def _proxy_credentials(proxy: SplitResult) -> dict[str, str]:
    if proxy.username is None:
        return {}
    pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
    return {"Proxy-Authorization": "Basic " + b64encode(pair.encode()).decode()}


async def _pieces(line: Lines, silence: float) -> AsyncGenerator[bytes, None]:
    while True:
        async with asyncio.timeout(silence):
            piece = await line.run(Line.piece)
        if not piece:
            return
        yield piece
