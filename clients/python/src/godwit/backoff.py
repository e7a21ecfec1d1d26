"""Waiting between tries."""

from __future__ import annotations

import random

__all__ = ["CONNECT_BASE", "CONNECT_MOST", "REQUEST_BASE", "REQUEST_MOST", "Backoff"]

# How requests and connections are retried, in seconds.
REQUEST_BASE = 0.1
REQUEST_MOST = 10.0
CONNECT_BASE = 1.0
CONNECT_MOST = 300.0

# Doubling more often than this would only grow a number that is cut anyway.
_DOUBLINGS = 30


class Backoff:
    """Spreads retries with full jitter.

    Each wait is random between nothing and a bound that doubles, so that clients which lost the server at once do not
    come back at once.
    """

    def __init__(self, base: float, most: float) -> None:
        self._base = base
        self._most = most
        self._tries = 0

    def next(self) -> float:
        """Return how many seconds to wait before the next try."""
        bound = min(self._base * 2.0 ** min(self._tries, _DOUBLINGS), self._most)
        self._tries += 1
        return random.uniform(0.0, bound)

    def reset(self) -> None:
        """Start again from the shortest wait."""
        self._tries = 0
