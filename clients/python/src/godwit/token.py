"""Tokens of recipients."""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime

__all__ = ["Token", "TokenSource"]


@dataclass(frozen=True, slots=True)
class Token:
    """Lets a recipient in. Its claims say which."""

    value: str = field(repr=False)
    expires: datetime | None = None
    """None: read from the token if it is a JWT, else not known."""

    def expires_at(self) -> float | None:
        """Return when the token ends, as Unix time; None: not known.

        The signature is not checked: the server does that, here only the time to ask for the next one is wanted.
        """
        if self.expires is not None:
            return self.expires.timestamp()
        parts = self.value.split(".")
        if len(parts) != 3:
            return None
        try:
            claims = json.loads(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
            end = float(claims["exp"])
        except (ValueError, TypeError, KeyError):
            return None
        return end if 0 < end <= 1e12 else None

    def renew_in(self, now: float) -> float | None:
        """Return in how many seconds to ask for the next token: when nine tenths of the rest are over; None: never."""
        end = self.expires_at()
        if end is None or end <= now:
            return None
        return (end - now) * 0.9


TokenSource = Callable[[], Awaitable[Token | str] | Token | str]
"""Returns a token that is valid now; it may be a coroutine function.

It is asked at every connect, and again when nine tenths of a token's life are over, so it should make a new one or
return one that lives for a while.
"""
