"""What carries requests to the server, and what it brings back."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

__all__ = ["MAX_ANSWER", "Answer", "Carrier", "CarrierError", "Streamed", "too_large"]

# Bytes of an answer that is read whole, and of a line of one that is not.
MAX_ANSWER = 256 << 20


class CarrierError(Exception):
    """The server could not be reached, or what came is no HTTP."""


def too_large(what: str) -> CarrierError:
    """Return the error for more than MAX_ANSWER bytes."""
    return CarrierError(f"{what} is larger than {MAX_ANSWER >> 20} MB")


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
            if len(content) > MAX_ANSWER:
                raise too_large("the answer")
        return Answer(self.status, self.headers, bytes(content))

    async def lines(self) -> AsyncGenerator[bytes, None]:
        """Go through its lines, as they come."""
        rest = bytearray()
        async for piece in self.pieces:
            rest += piece
            if b"\n" not in piece:
                if len(rest) > MAX_ANSWER:
                    raise too_large("a line")
                continue
            *lines, last = rest.split(b"\n")
            rest = bytearray(last)
            for line in lines:
                yield bytes(line)
        if rest:
            yield bytes(rest)


class Carrier(Protocol):
    """Carries requests to one server. It raises CarrierError, and TimeoutError."""

    async def ask(
        self, method: str, target: str, headers: Mapping[str, str], content: bytes | None, *, timeout: float
    ) -> Answer:
        """Make a request and read its answer whole; after so many seconds both are given up."""

    def stream(
        self, target: str, headers: Mapping[str, str], *, timeout: float, silence: float
    ) -> AbstractAsyncContextManager[Streamed]:
        """Get what is read piece by piece; after so long without an answer, or a silence within it, it is given up."""

    async def close(self) -> None:
        """Close the connections."""
