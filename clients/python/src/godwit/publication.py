"""Notifications to be published, and how the API takes them."""

from __future__ import annotations

import base64
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal, TypedDict

from .values import Duration, format_duration, format_time

__all__ = [
    "AckMode",
    "Escalation",
    "Priority",
    "Publication",
    "PublicationFields",
    "encode_body",
    "encode_data",
    "is_json",
    "new_id",
]

Priority = Literal["high", "normal", "low"]
AckMode = Literal["any", "all", "none"]


@dataclass(frozen=True, slots=True)
class Escalation:
    """One step of an escalation: a channel, and how long the notification must have been unacknowledged."""

    channel: str
    """Where all begins is live."""
    after: Duration = 0.0
    """Counts from when the notification is due; not less than that of the step before."""
    settle: Literal["shown"] | None = None
    """shown: it is settled as soon as a device has shown it; else by a click or an acknowledgement."""
    withdraw: bool = True
    """False: what the step has brought stays where it is shown although the notification was settled elsewhere."""
    to: str = ""
    """Of a webhook: the name of a target of the app, in the place of the recipient's endpoints."""

    def to_json(self) -> dict[str, Any]:
        """Return the step as the API takes it."""
        fields: dict[str, Any] = {"channel": self.channel, "after": format_duration(self.after)}
        if self.settle:
            fields["settle"] = self.settle
        if not self.withdraw:
            fields["withdraw"] = False
        if self.to:
            fields["to"] = self.to
        return fields


@dataclass(frozen=True, slots=True)
class Action:
    """A choice that a kept notification offers."""

    id: str
    title: str
    url: str = ""
    """Page or app that it opens. Empty: the choice is a reply."""

    def to_json(self) -> dict[str, str]:
        """Return its form in a request."""
        return {"id": self.id, "title": self.title, **({"url": self.url} if self.url else {})}


@dataclass(frozen=True, slots=True, kw_only=True)
class Publication:
    """A notification to be published. Only `to` is required."""

    to: str
    """The recipient: 1 to 128 bytes of A-Za-z0-9._:@+-"""
    id: str = ""
    """Names the notification.

    Publishing it again to the same recipient while it is pending, and 24 h after it settled, changes nothing. Empty:
    one is made.
    """
    title: str = ""
    body: str = ""
    category: str = ""
    data: Any = None
    """A JSON value; or bytes, which are JSON if they are valid JSON, else text if they are UTF-8, else bytes."""
    content_type: str = ""
    """Of data, where it is not what data looks like. With a type that is not JSON, data is text or bytes."""
    ttl: Duration | None = None
    """How long it is worth delivering: 24 h unless said, at most 30 days; counts from send_at."""
    expires_at: datetime | None = None
    """Instead of ttl."""
    send_at: datetime | None = None
    """Delays it, by at most 30 days."""
    collapse_key: str = ""
    """An unsettled notification of the same key and recipient is replaced."""
    digest_key: str = ""
    """With which others it gathers, if its category gathers; else the category's settings say."""
    priority: Priority | None = None
    """Normal unless said."""
    ack: AckMode | None = None
    """Whose acknowledgement settles it; any unless said."""
    escalate: Sequence[Escalation] = ()
    reply_by: Duration | None = None
    template: str = ""
    """The name of one of the app's templates, whose content it gets in the place of title, body and category."""
    variables: Mapping[str, str | float | bool] | None = None
    """Of the template: each that it says without something in its stead."""
    locale: str = ""
    """BCP 47: in which sessions get the template, and endpoints of no known language."""
    inbox: bool | None = None
    """Whether recipients' inboxes keep it after its delivery. None: its category decides."""
    keep: Duration | None = None
    """How long inboxes keep it: 30 days unless said, at most 365."""
    actions: Sequence[Action] = ()
    """Choices that a kept notification offers, 5 at most."""
    fcm: Mapping[str, Any] | None = None
    """What Android devices alone get, with the names of the API: channel_id, ongoing, direct_boot_ok and others."""
    apns: Mapping[str, Any] | None = None
    """What Apple's devices alone get: interruption_level, relevance_score, critical and others."""
    live_activity: Mapping[str, Any] | None = None
    """The Live Activity that starts on channel liveactivitystart: type, state, group, object and others."""

    def to_json(self, to: str | Sequence[str] | None = None) -> dict[str, Any]:
        """Return the request for the recipients, by default `self.to`. It has an id in any case."""
        names: str | list[str] = self.to if to is None else to if isinstance(to, str) else list(to)
        fields: dict[str, Any] = {
            "to": names,
            "id": self.id or new_id(),
            "title": self.title,
            "body": self.body,
            "category": self.category,
            **encode_data(self.data, self.content_type),
            "ttl": None if self.ttl is None else format_duration(self.ttl),
            "expires_at": None if self.expires_at is None else format_time(self.expires_at),
            "send_at": None if self.send_at is None else format_time(self.send_at),
            "collapse_key": self.collapse_key,
            "digest_key": self.digest_key,
            "priority": self.priority,
            "ack": self.ack,
            "escalate": [e.to_json() for e in self.escalate],
            "reply_by": None if self.reply_by is None else format_duration(self.reply_by),
            "template": self.template,
            "variables": None if self.variables is None else dict(self.variables),
            "locale": self.locale,
            "inbox": self.inbox,
            "keep": None if self.keep is None else format_duration(self.keep),
            "actions": [a.to_json() for a in self.actions],
            "fcm": None if self.fcm is None else dict(self.fcm),
            "apns": None if self.apns is None else dict(self.apns),
            "live_activity": None if self.live_activity is None else dict(self.live_activity),
        }
        always = {"to", "id", "data"}
        return {name: value for name, value in fields.items() if name in always or value not in (None, "", [])}


class PublicationFields(TypedDict, total=False):
    """What `publish` takes by name: the fields of a Publication, all but `to`."""

    id: str
    title: str
    body: str
    category: str
    data: Any
    content_type: str
    ttl: Duration | None
    expires_at: datetime | None
    send_at: datetime | None
    collapse_key: str
    digest_key: str
    priority: Priority | None
    ack: AckMode | None
    escalate: Sequence[Escalation]
    reply_by: Duration | None
    template: str
    variables: Mapping[str, str | float | bool] | None
    locale: str
    inbox: bool | None
    keep: Duration | None
    actions: Sequence[Action]
    fcm: Mapping[str, Any] | None
    apns: Mapping[str, Any] | None
    live_activity: Mapping[str, Any] | None


def is_json(content_type: str) -> bool:
    """Whether data of this type stands as JSON in a frame."""
    base = content_type.partition(";")[0].strip()
    return base == "application/json" or base.endswith("+json")


def encode_data(data: Any, content_type: str = "") -> dict[str, Any]:
    """Return the fields data, data_base64 and content_type for data."""
    if data is None:
        return {"content_type": content_type} if content_type else {}
    if not isinstance(data, bytes | bytearray | memoryview):
        if content_type and not is_json(content_type):
            if not isinstance(data, str):
                raise TypeError(f"data of type {content_type} must be text or bytes, not {type(data).__name__}")
            return {"data": data, "content_type": content_type}
        json.dumps(data, allow_nan=False)  # a value that is not JSON is the caller's mistake, said here
        return {"data": data, "content_type": content_type}
    return _encode_bytes(bytes(data), content_type)


def encode_body(data: Any, content_type: str = "") -> tuple[bytes, str]:
    """Return data as the body of a request, with its content type."""
    fields = encode_data(data, content_type)
    content_type = fields.get("content_type", "")
    if isinstance(data, bytes | bytearray | memoryview):
        return bytes(data), content_type or ("application/json" if data else "")
    if data is None:
        return b"", content_type
    if content_type and not is_json(content_type):
        return str(data).encode(), content_type
    return json.dumps(data, ensure_ascii=False, separators=(",", ":")).encode(), content_type or "application/json"


def _encode_bytes(data: bytes, content_type: str) -> dict[str, Any]:
    if not data:
        return {"content_type": content_type} if content_type else {}
    try:
        text: str | None = data.decode()
    except UnicodeDecodeError:
        text = None
    if text is not None and (not content_type or is_json(content_type)):
        try:
            return {"data": json.loads(text, parse_constant=_refuse), "content_type": content_type}
        except ValueError:
            pass
    if is_json(content_type):
        raise ValueError(f"data is not valid JSON although its content type is {content_type}")
    if text is not None:
        return {"data": text, "content_type": content_type or "text/plain; charset=utf-8"}
    encoded = base64.b64encode(data).decode()
    return {"data_base64": encoded, "content_type": content_type or "application/octet-stream"}


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not JSON")


_CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


def new_id() -> str:
    """Make a ULID: 48 bits of time and 80 random bits, in 26 letters that sort by time."""
    number = (time.time_ns() // 1_000_000) << 80 | int.from_bytes(os.urandom(10))
    return "".join(_CROCKFORD[number >> shift & 31] for shift in range(125, -1, -5))
