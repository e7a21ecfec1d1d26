"""Sessions over WebSocket, with JSON frames."""

from __future__ import annotations

import ssl

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException
from websockets.typing import Subprotocol

from .connection import MAX_FRAME
from .errors import Problem, ProblemError, RefusedError, UnreachableError
from .frames import ClientFrame, ServerFrame
from .http import read_problem
from .jsonframes import decode_json, encode_json

__all__ = ["WebSocketConnection", "dial_websocket"]

# How long the closing handshake may take, in seconds.
_CLOSE_TIMEOUT = 1.0

_POLICY_VIOLATION = 1008


class WebSocketConnection:
    """A Connection over WebSocket."""

    def __init__(self, ws: ClientConnection) -> None:
        self._ws = ws

    async def send(self, frame: ClientFrame) -> None:
        """Send a frame, or raise UnreachableError."""
        try:
            await self._ws.send(encode_json(frame))
        except ConnectionClosed as e:
            raise _lost(e) from e

    async def recv(self) -> ServerFrame | None:
        """Return the next frame, or raise UnreachableError or RefusedError."""
        try:
            data = await self._ws.recv(decode=False)  # text that is not UTF-8 would end the connection
        except ConnectionClosed as e:
            if e.rcvd is not None and e.rcvd.code == _POLICY_VIOLATION:
                raise RefusedError(e.rcvd.reason or "policy") from e
            raise _lost(e) from e
        return decode_json(data)

    async def close(self) -> None:
        """Do the closing handshake, briefly, and let go of the connection."""
        await self._ws.close()


def _lost(e: ConnectionClosed) -> UnreachableError:
    return UnreachableError(f"connection lost: {e}")


async def dial_websocket(url: str, *, tls: ssl.SSLContext | None, timeout: float) -> WebSocketConnection:
    """Connect to the WebSocket at a ws or wss URL."""
    if tls is None and url.startswith("wss:"):
        tls = ssl.create_default_context()
    try:
        ws = await connect(
            url,
            subprotocols=[Subprotocol("godwit.v1.json")],
            compression=None,
            ssl=tls,
            open_timeout=timeout,
            ping_interval=None,  # the session has a heartbeat of its own
            close_timeout=_CLOSE_TIMEOUT,
            max_size=MAX_FRAME,
        )
    except InvalidStatus as e:
        raise ProblemError(_problem(e), "connect") from e
    except TimeoutError as e:
        raise UnreachableError(f"connect: server did not answer in {timeout:g} s") from e
    except (OSError, WebSocketException, EOFError) as e:
        raise UnreachableError(f"connect: {e}") from e
    return WebSocketConnection(ws)


def _problem(e: InvalidStatus) -> Problem:
    return read_problem(e.response.status_code, bytes(e.response.body or b""), e.response.headers.get("Retry-After"))
