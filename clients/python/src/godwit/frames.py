"""Frames between client and server."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .errors import FrameError
from .publication import encode_body
from .unread import Unread

__all__ = [
    "Ack",
    "ClientFrame",
    "ErrorFrame",
    "Goodbye",
    "Hello",
    "InboxNews",
    "InboxState",
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
    "Reply",
    "ReplyFrame",
    "Request",
    "Serve",
    "ServerFrame",
    "Subscribe",
    "Unregister",
    "Unserve",
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
    observe: bool = False
    """It only watches."""


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


@dataclass(frozen=True, slots=True)
class Serve:
    """Has the session answer requests of subjects or patterns of them."""

    subjects: tuple[str, ...]
    queue: str = ""


@dataclass(frozen=True, slots=True)
class Unserve:
    """Ends what a serve with the same queue began."""

    subjects: tuple[str, ...]
    queue: str = ""


# Limits of answers.
MAX_BODY = 1 << 20  # to a request
MAX_REPLY = 64 << 10  # to a notification
_MAX_HEADERS = 16 << 10  # all names and values together
_MAX_TYPE = 128
_HEADER_NAME = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
_CONTROL = re.compile(r"[\x00-\x08\x0a-\x1f\x7f\ud800-\udfff]")

Headers = Mapping[str, Sequence[str] | str]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyFrame:
    """Answers a request or a notification: one of request_id and id is set."""

    request_id: str = ""
    id: str = ""
    status: int = 200
    headers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    data: bytes = b""
    content_type: str = ""


class Reply:
    """Answers a request, or a notification that asked for a reply.

    data: a JSON value; or bytes, which are JSON if they are valid JSON, else text if they are UTF-8, else bytes; at
    most 1 MiB, to a notification 64 KB. content_type: where it is not what data looks like. headers: values, or lists
    of them for headers that repeat; an answer to a notification has none.
    """

    def __init__(self, data: Any = None, *, status: int = 200, headers: Headers | None = None, content_type: str = ""):
        self.data, self.content_type = encode_body(data, content_type)
        self.status = status
        self.headers = {n: (v,) if isinstance(v, str) else tuple(v) for n, v in (headers or {}).items()}

    def check(self, most: int) -> None:
        """Raise ValueError for what the server would not take."""
        if not 200 <= self.status <= 599:
            raise ValueError(f"status {self.status} is not between 200 and 599")
        if len(self.data) > most:
            raise ValueError(f"data has {len(self.data)} bytes; at most {most} are allowed")
        kind = self.content_type
        if len(kind) > _MAX_TYPE or not (kind.isascii() and (kind.isprintable() or not kind)):
            raise ValueError(f"content type {kind[:64]!r} is not one of at most {_MAX_TYPE} ASCII characters")
        size = 0
        for name, values in self.headers.items():
            if not _HEADER_NAME.fullmatch(name):
                raise ValueError(f"{name[:64]!r} is not a header's name")
            for value in values:
                if _CONTROL.search(value):
                    raise ValueError(f"header {name[:64]} has a value with control characters")
                size += len(name) + len(value.encode())
        if size > _MAX_HEADERS:
            raise ValueError(f"headers have {size} bytes; at most {_MAX_HEADERS} are allowed")

    def to(self, asked: Request | Notification) -> ReplyFrame:
        """Return the frame that answers a request or a notification."""
        if isinstance(asked, Notification):
            return ReplyFrame(id=asked.id, status=self.status, data=self.data, content_type=self.content_type)
        return ReplyFrame(
            request_id=asked.request_id,
            status=self.status,
            headers=self.headers,
            data=self.data,
            content_type=self.content_type,
        )


ClientFrame = (
    Hello
    | Ack
    | Nack
    | Register
    | Unregister
    | ObjectAck
    | Ping
    | Subscribe
    | Unsubscribe
    | Serve
    | Unserve
    | ReplyFrame
)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxState:
    """What an item of an inbox is."""

    id: str
    seen: bool = False
    read: bool = False
    archived: bool = False
    pinned: bool = False
    answered: str = ""
    """Id of the action that was chosen; empty: none was."""


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxNews:
    """The counts of a recipient's inbox after a change."""

    unseen: int = 0
    """Items that came since the list was last opened."""
    unread: int = 0
    changed: tuple[str, ...] = ()
    """Ids of what has changed, at most 100."""
    more: bool = False
    """More has changed."""
    marked: tuple[InboxState, ...] = ()
    """Marks of changed items that have neither come nor gone, at most 10."""


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
    inbox: InboxNews | None = None
    """Counts of the recipient's inbox; None: it never had anything."""


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
    """By when an answer is asked for; None: none is."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """What somebody asks."""

    request_id: str = field(repr=False)
    """Secret: it authorises the answer."""
    subject: str = ""
    method: str = ""
    """Of a request that came through the gateway, as path and query; else empty."""
    path: str = ""
    query: str = ""
    headers: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Their values by name; some come more than once. See `header`."""
    content_type: str = ""
    data: bytes = b""
    deadline: datetime = EPOCH
    """An answer that comes later is dropped."""

    def header(self, name: str) -> str:
        """Return the first value of a header, however its name is written; "": there is none."""
        values = (v for n, v in self.headers.items() if n.lower() == name.lower() and v)
        return next(values, ("",))[0]

    def json(self) -> Any:
        """Return data as the JSON value it is; None where there is none."""
        return json.loads(self.data) if self.data else None

    def text(self) -> str:
        """Return data as the text it is."""
        return self.data.decode()


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
    | InboxNews
    | Registered
    | RegistrationFailed
    | ObjectFrame
    | Message
    | MessageGap
    | Request
    | Pong
    | Goodbye
    | ErrorFrame
    | Unread
)
