"""Frames between client and server, and their JSON form."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from .errors import FrameError
from .publication import decode_data
from .values import format_duration, parse_duration, parse_time

__all__ = [
    "Ack",
    "ClientFrame",
    "ErrorFrame",
    "Goodbye",
    "Hello",
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
    "Unregister",
    "Welcome",
    "decode_json",
    "encode_json",
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


ClientFrame = Hello | Ack | Nack | Register | Unregister | ObjectAck | Ping


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

    def error(self) -> FrameError:
        """Return it as an exception."""
        return FrameError(self.code, self.message, self.field)


ServerFrame = (
    Welcome | Notification | Recall | Registered | RegistrationFailed | ObjectFrame | Pong | Goodbye | ErrorFrame
)


def encode_json(frame: ClientFrame) -> str:
    """Write a client frame as JSON."""
    name, fields = _client_fields(frame)
    return json.dumps({name: fields}, ensure_ascii=False, separators=(",", ":"))


def _client_fields(frame: ClientFrame) -> tuple[str, dict[str, Any]]:
    match frame:
        case Hello():
            return "hello", _filled(
                app=frame.app,
                token=frame.token,
                recipient=frame.recipient,
                group=frame.group,
                device=frame.device,
                digest=frame.digest,
                held=list(frame.held),
                window=frame.window,
                heartbeat=_span(frame.heartbeat),
            )
        case Ack():
            return "ack", {"ids": list(frame.ids)}
        case Nack():
            return "nack", {"ids": list(frame.ids), **_filled(after=_span(frame.after), reason=frame.reason)}
        case Register():
            extra = _filled(group=frame.group, reset=frame.reset, more=frame.more)
            return "register", {"objects": list(frame.objects), **extra}
        case Unregister():
            return "unregister", {"objects": list(frame.objects), **_filled(group=frame.group)}
        case ObjectAck():
            version = str(frame.version) if frame.version else ""  # nobody has put one yet: it is unknown
            return "object_ack", {"object": frame.object, **_filled(group=frame.group, version=version)}
        case Ping():
            return "ping", _filled(digest=frame.digest)


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _span(seconds: float) -> str:
    return format_duration(seconds) if seconds else ""


def decode_json(text: str | bytes) -> ServerFrame | None:
    """Read a server frame: an object with one key. None: a frame of a later server that this client does not know."""
    frame = json.loads(text)
    if not isinstance(frame, dict) or len(frame) != 1:
        raise ValueError("a frame must be a JSON object with one key")
    name, fields = frame.popitem()
    if not isinstance(fields, dict):
        raise ValueError(f"{name} must be a JSON object")
    read = _READERS.get(name)
    return None if read is None else read(fields)


def _ids(fields: Mapping[str, Any], name: str = "ids") -> tuple[str, ...]:
    return tuple(fields.get(name) or ())


def _duration(fields: Mapping[str, Any], name: str) -> float:
    return parse_duration(str(fields.get(name, 0))).total_seconds()


def _welcome(fields: dict[str, Any]) -> Welcome:
    return Welcome(
        session=fields["session"],
        app=fields.get("app", ""),
        recipient=fields.get("recipient", ""),
        heartbeat=_duration(fields, "heartbeat"),
        digest=fields.get("digest", ""),
        registrations=int(fields.get("registrations", 0)),
        server_time=parse_time(fields["server_time"]) if "server_time" in fields else EPOCH,
    )


def _notification(fields: dict[str, Any]) -> Notification:
    data, content_type = decode_data(fields)
    return Notification(
        id=fields["id"],
        seq=int(fields.get("seq", 0)),
        title=fields.get("title", ""),
        body=fields.get("body", ""),
        category=fields.get("category", ""),
        data=data,
        content_type=content_type,
        priority=fields.get("priority", "normal"),
        created_at=parse_time(fields["created_at"]) if "created_at" in fields else EPOCH,
        expires_at=parse_time(fields["expires_at"]) if "expires_at" in fields else EPOCH,
        attempt=int(fields.get("attempt", 1)),
        reply_by=parse_time(fields["reply_by"]) if fields.get("reply_by") else None,
    )


def _object(fields: dict[str, Any]) -> ObjectFrame:
    payload, content_type = decode_data(fields, "payload")
    return ObjectFrame(
        group=fields.get("group", ""),
        object=fields["object"],
        version=int(fields.get("version") or 0),
        payload=payload,
        content_type=content_type,
        unknown=bool(fields.get("unknown", False)),
    )


_READERS: dict[str, Callable[[dict[str, Any]], ServerFrame]] = {
    "welcome": _welcome,
    "notification": _notification,
    "recall": lambda f: Recall(_ids(f)),
    "registered": lambda f: Registered(_ids(f, "objects"), f.get("digest", ""), f.get("group", "")),
    "registration_failed": lambda f: RegistrationFailed(
        _ids(f, "objects"), f.get("code", ""), bool(f.get("transient", False)), f.get("group", "")
    ),
    "object": _object,
    "pong": lambda f: Pong(f.get("digest", "")),
    "goodbye": lambda f: Goodbye(f.get("reason", ""), _duration(f, "retry_after")),
    "error": lambda f: ErrorFrame(f.get("code", ""), f.get("message", ""), f.get("field", "")),
}
