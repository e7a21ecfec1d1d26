"""Acknowledgements on their way out."""

from __future__ import annotations

from collections.abc import Callable

from .frames import Ack, ClientFrame, Nack, ReplyFrame

__all__ = ["Outbox"]

# How many ids one frame carries.
_MAX_ACK_IDS = 256


class Outbox:
    """Collects acknowledgements until the session's writer takes them, so that those of a burst share a frame.

    It outlives sessions: what a lost connection did not carry goes out on the next one. It is bounded by the
    notifications a listener holds.
    """

    def __init__(self) -> None:
        self._acks: list[str] = []
        self._nacks: list[Nack] = []
        self._replies: list[ReplyFrame] = []
        self.wake: Callable[[], None] = lambda: None
        """Called when there is something to send."""

    def ack(self, name: str) -> None:
        """Acknowledge a notification."""
        self._acks.append(name)
        self.wake()

    def nack(self, nack: Nack) -> None:
        """Ask for a notification again."""
        self._nacks.append(nack)
        self.wake()

    def reply(self, reply: ReplyFrame) -> None:
        """Answer a notification."""
        self._replies.append(reply)
        self.wake()

    def take(self) -> list[ClientFrame]:
        """Empty the outbox into frames."""
        frames: list[ClientFrame] = [
            Ack(tuple(self._acks[i : i + _MAX_ACK_IDS])) for i in range(0, len(self._acks), _MAX_ACK_IDS)
        ]
        frames += self._nacks
        frames += self._replies
        self._acks, self._nacks, self._replies = [], [], []
        return frames
