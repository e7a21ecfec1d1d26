"""Requests by an httpx.AsyncClient of the program's."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing, asynccontextmanager

import httpx

from .http1 import CarrierError, Streamed

__all__ = ["HTTPX"]


class HTTPX:
    """A Carrier that is somebody else's HTTP client."""

    def __init__(self, base: str, client: httpx.AsyncClient) -> None:
        self._base = base
        self._client = client

    async def close(self) -> None:
        """Do nothing: the client is closed by whoever made it."""

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
