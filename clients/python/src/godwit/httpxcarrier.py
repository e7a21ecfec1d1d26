"""Requests by an httpx.AsyncClient of the program's."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import httpx

from .carrier import Answer, CarrierError, Streamed

__all__ = ["HTTPX"]


class HTTPX:
    """A Carrier that is somebody else's HTTP client."""

    def __init__(self, base: str, client: httpx.AsyncClient) -> None:
        self._base = base
        self._client = client

    async def close(self) -> None:
        """Do nothing: the client is closed by whoever made it."""

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None, *, timeout: float
    ) -> Answer:
        """Make a request and read its answer whole; after so many seconds both are given up."""
        async with asyncio.timeout(timeout), self._send(method, target, headers, content, timeout, timeout) as streamed:
            return await streamed.whole()

    @asynccontextmanager
    async def stream(
        self, target: str, headers: Mapping[str, str], *, timeout: float, silence: float
    ) -> AsyncIterator[Streamed]:
        """Get what is read piece by piece; after so long without an answer, or a silence within it, it is given up."""
        async with self._send("GET", target, headers, None, timeout, silence) as streamed:
            yield streamed

    @asynccontextmanager
    async def _send(
        self,
        method: str,
        target: str,
        headers: Mapping[str, str],
        content: bytes | None,
        timeout: float,
        silence: float,
    ) -> AsyncIterator[Streamed]:
        limits = httpx.Timeout(timeout, read=max(timeout, silence))
        request = self._client.build_request(
            method, self._base + target, content=content, headers=dict(headers), timeout=limits
        )
        try:
            response = await self._client.send(request, stream=True, follow_redirects=False)
            try:
                async with aclosing(_pieces(response)) as pieces:
                    got = tuple((name.lower(), value) for name, value in response.headers.multi_items())
                    yield Streamed(response.status_code, got, pieces)
            finally:
                await response.aclose()
        except httpx.TimeoutException as e:
            raise TimeoutError(str(e)) from e
        except httpx.TransportError as e:
            raise CarrierError(str(e) or type(e).__name__) from e


async def _pieces(response: httpx.Response) -> AsyncGenerator[bytes, None]:
    async for piece in response.aiter_bytes():
        yield piece
