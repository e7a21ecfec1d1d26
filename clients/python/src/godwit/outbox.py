"""Acknowledgements on their way out."""

from __future__ import annotations

import time
from collections.abc import Callable

from .frames import Ack, ClientFrame, Nack, ReplyFrame

__all__ = ["ACK_DELAY", "MAX_ACK_DELAY", "Outbox"]

# How many ids one frame carries.
_MAX_ACK_IDS = 256

# The window that a server grants to a client that asks for none.
_USUAL_WINDOW = 64

# Seconds that acknowledgements wait for others: short beside what a disk needs at the server.
ACK_DELAY = 0.005

# The longest such wait: later the server would deliver again.
MAX_ACK_DELAY = 1.0


class Outbox:
    """Collects acknowledgements until the session's writer takes them, so that those of a burst share a frame.

    One that comes after a while without any leaves at once; those that follow wait for each other for up to `delay`
    seconds, but not where half of the window does, for which the server waits.

    It outlives sessions: what a lost connection did not carry goes out on the next one. It is bounded by the
    notifications a listener holds.
    """

    def __init__(self, delay: float = 0.0, window: int = 0, now: Callable[[], float] = time.monotonic) -> None:
        self._delay = delay
        self._full = max((window or _USUAL_WINDOW) // 2, 1)
        self._now = now
        self._acked = float("-inf")  # when some left last
        self._acks: list[str] = []
        self._nacks: list[Nack] = []
        self._replies: list[ReplyFrame] = []
        self.wake: Callable[[], None] = lambda: None
        """Called when the writer has to look."""

    def ack(self, name: str) -> None:
        """Acknowledge a notification."""
        self._acks.append(name)
        if len(self._acks) == 1 or len(self._acks) >= self._full:  # the writer knows of the others
            self.wake()

    def nack(self, nack: Nack) -> None:
        """Ask for a notification again."""
        self._nacks.append(nack)
        self.wake()

    def reply(self, reply: ReplyFrame) -> None:
        """Answer a notification."""
        self._replies.append(reply)
        self.wake()

    def due_in(self) -> float:
        """Return in how many seconds there is something to send."""
        if self._nacks or self._replies or len(self._acks) >= self._full:
            return 0.0
        return max(self._acked + self._delay - self._now(), 0.0) if self._acks else float("inf")

    def take(self, *, last: bool = False) -> list[ClientFrame]:
        """Return what is to leave now as frames: all, where it is the last time."""
        if self.due_in() and not last:
            return []
        if self._acks:
            self._acked = self._now()
        frames: list[ClientFrame] = [
            Ack(tuple(self._acks[i : i + _MAX_ACK_IDS])) for i in range(0, len(self._acks), _MAX_ACK_IDS)
        ]
        frames += self._nacks
        frames += self._replies
        self._acks, self._nacks, self._replies = [], [], []
        return frames
