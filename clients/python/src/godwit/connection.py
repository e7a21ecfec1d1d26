"""One connection for a session, whatever carries it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from .frames import ClientFrame, ServerFrame

__all__ = ["MAX_FRAME", "Connection", "Dial"]

# Bounds one frame from the server: a request of 1 MiB whose every byte needs escaping, with its headers.
MAX_FRAME = 7 << 20


class Connection(Protocol):
    """Carries frames. `send` is called by one task at a time, `recv` by one other."""

    async def send(self, frame: ClientFrame) -> None:
        """Send a frame, or raise UnreachableError."""

    async def recv(self) -> ServerFrame | None:
        """Return the next frame, None for one that is not known.

        Raises UnreachableError when the connection has ended, RefusedError when it ended with a refusal.
        """

    async def close(self) -> None:
        """End the connection and let go of all it holds. It may be called more than once."""


Dial = Callable[[], Awaitable[Connection]]
