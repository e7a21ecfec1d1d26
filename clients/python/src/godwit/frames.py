"""Frames between client and server."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .errors import FrameError
from .unread import Unread

__all__ = [
    "Ack",
    "ClientFrame",
    "ErrorFrame",
    "Goodbye",
    "Hello",
    "Message",
    "MessageGap",
    "Nack",
    "Notification",
    "ObjectAck",
    "ObjectFrame",
    "Ping",
    "Pong",
    "Recall",
    "Register",
    "Registered",
    "RegistrationFailed",
    "ServerFrame",
    "Subscribe",
    "Unregister",
    "Unsubscribe",
    "Welcome",
]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hello:
    """Opens a session, or introduces a new token."""

    app: str = ""
    token: str = field(default="", repr=False)
    recipient: str = ""
    group: str = ""
    device: str = ""
    digest: str = ""
    held: tuple[str, ...] = ()
    window: int = 0
    heartbeat: float = 0.0


@dataclass(frozen=True, slots=True)
class Ack:
    """Settles notifications."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Nack:
    """Asks for redelivery."""

    ids: tuple[str, ...]
    after: float = 0.0
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Register:
    """Adds objects to, or with reset replaces, the registrations of the session or device."""

    objects: tuple[str, ...]
    group: str = ""
    reset: bool = False
    more: bool = False


@dataclass(frozen=True, slots=True)
class Unregister:
    """Removes objects from the registrations of the session or device."""

    objects: tuple[str, ...]
    group: str = ""


@dataclass(frozen=True, slots=True)
class ObjectAck:
    """Says which version of an object was handled."""

    object: str
    version: int
    group: str = ""


@dataclass(frozen=True, slots=True)
class Ping:
    """Asks for a pong."""

    digest: str = ""


@dataclass(frozen=True, slots=True)
class Subscribe:
    """Subscribes the session to topics or patterns of them."""

    topics: tuple[str, ...]
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Unsubscribe:
    """Ends what a subscribe with the same queue began."""

    topics: tuple[str, ...]
    queue: str = ""


ClientFrame = Hello | Ack | Nack | Register | Unregister | ObjectAck | Ping | Subscribe | Unsubscribe


@dataclass(frozen=True, slots=True, kw_only=True)
class Welcome:
    """What the server said when the session began."""

    session: str = field(repr=False)
    """Secret: it authorises acknowledgements."""
    app: str = ""
    recipient: str = ""
    heartbeat: float = 30.0
    """In seconds."""
    digest: str = ""
    registrations: int = 0
    server_time: datetime = EPOCH


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """One notification as a recipient gets it."""

    id: str
    seq: int = 0
    """Counts per recipient from 1; gaps are normal."""
    title: str = ""
    body: str = ""
    category: str = ""
    data: bytes = b""
    """JSON, text or bytes, as content_type says."""
    content_type: str = ""
    priority: str = "normal"
    """high, normal or low"""
    created_at: datetime = EPOCH
    expires_at: datetime = EPOCH
    attempt: int = 1
    """1 for the first delivery."""
    reply_by: datetime | None = None

    def json(self) -> Any:
        """Return data as the JSON value it is; None where there is none."""
        return json.loads(self.data) if self.data else None

    def text(self) -> str:
        """Return data as the text it is."""
        return self.data.decode()


@dataclass(frozen=True, slots=True)
class Recall:
    """Lists notifications that were settled elsewhere or withdrawn."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Registered:
    """Confirms registrations and gives the digest of the whole set."""

    objects: tuple[str, ...]
    digest: str
    group: str = ""


@dataclass(frozen=True, slots=True)
class RegistrationFailed:
    """Says which registrations were refused."""

    objects: tuple[str, ...]
    code: str
    transient: bool = False
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectFrame:
    """Says that an object is at a version, or that its version is unknown."""

    object: str
    group: str = ""
    version: int = 0
    payload: bytes = b""
    content_type: str = ""
    unknown: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """What was published to a topic. It comes at most once."""

    topic: str
    data: bytes = b""
    """JSON, text or bytes, as content_type says."""
    content_type: str = ""

    def json(self) -> Any:
        """Return data as the JSON value it is; None where there is none."""
        return json.loads(self.data) if self.data else None

    def text(self) -> str:
        """Return data as the text it is."""
        return self.data.decode()


@dataclass(frozen=True, slots=True)
class MessageGap:
    """Says how many messages were dropped before the next."""

    count: int


@dataclass(frozen=True, slots=True)
class Pong:
    """Answers a ping."""

    digest: str = ""


@dataclass(frozen=True, slots=True)
class Goodbye:
    """The last frame of a session that the server ends."""

    reason: str
    retry_after: float = 0.0


@dataclass(frozen=True, slots=True)
class ErrorFrame:
    """The server's complaint about a frame."""

    code: str
    message: str
    field: str = ""
    refused: tuple[str, ...] = ()
    """Patterns of the field that were refused; the others of the frame were taken."""

    def error(self) -> FrameError:
        """Return it as an exception."""
        return FrameError(self.code, self.message, self.field)


ServerFrame = (
    Welcome
    | Notification
    | Recall
    | Registered
    | RegistrationFailed
    | ObjectFrame
    | Message
    | MessageGap
    | Pong
    | Goodbye
    | ErrorFrame
    | Unread
)
