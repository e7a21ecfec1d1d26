"""What the API answers."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from .errors import Problem
from .values import parse_time

__all__ = [
    "ChannelStatus",
    "Digest",
    "Event",
    "ObjectRegistration",
    "ObjectValue",
    "Preferences",
    "Receipt",
    "Recipient",
    "Response",
    "Session",
    "Status",
]

Json = Mapping[str, Any]


def _time(fields: Json, name: str) -> datetime | None:
    text = fields.get(name)
    return None if not text else parse_time(text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """Says that a notification is on the server's disk, or why it is not."""

    id: str
    to: str
    status: str = ""
    """Empty if it was refused."""
    duplicate: bool = False
    """It had been published before: nothing was sent again."""
    expires_at: datetime | None = None
    problem: Problem | None = None
    """Why this copy was refused."""

    @property
    def ok(self) -> bool:
        """Whether it is stored."""
        return self.problem is None

    @classmethod
    def from_json(cls, fields: Json) -> Receipt:
        """Read one answer among several, or the only one."""
        error = fields.get("error")
        return cls(
            id=fields.get("id", ""),
            to=fields.get("to", ""),
            status=fields.get("status", ""),
            duplicate=bool(fields.get("duplicate", False)),
            expires_at=_time(fields, "expires_at"),
            problem=None if error is None else Problem.from_json(error),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """The digest in which a notification waits, or into which it went."""

    id: str
    """Of the notification that the digest becomes."""
    due_at: datetime | None = None
    """When it leaves at the latest."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ChannelStatus:
    """What one channel made of a notification."""

    channel: str
    status: str
    at: datetime | None = None
    detail: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Response:
    """What answered a request."""

    status: int
    headers: Mapping[str, tuple[str, ...]]
    """Their values by name in small letters; some come more than once."""
    content_type: str = ""
    data: bytes = b""

    def json(self) -> Any:
        """Return data as the JSON value it is; None where there is none."""
        return json.loads(self.data) if self.data else None

    def text(self) -> str:
        """Return data as the text it is."""
        return self.data.decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class Status:
    """What became of one recipient's copy of a notification. Times are None for what has not happened."""

    id: str
    to: str
    status: str
    """scheduled, stored, delivered, acked, replied, expired, replaced, recalled or failed; for a digest
    gathered, then digested"""
    priority: str = "normal"
    ack: str = "any"
    seq: int = 0
    """Its place in the recipient's order; 0 while it is scheduled."""
    created_at: datetime | None = None
    send_at: datetime | None = None
    expires_at: datetime | None = None
    delivered_at: datetime | None = None
    """Of the first delivery; may lag, and be lost in a crash."""
    settled_at: datetime | None = None
    acked_at: datetime | None = None
    latency_ms: float | None = None
    """From when it was due to its acknowledgement."""
    attempts: int = 0
    """Deliveries; may lag, and be lost in a crash."""
    reply: Any = None
    """What the recipient answered: status, content_type, and data or data_base64."""
    channels: tuple[ChannelStatus, ...] = ()
    digest: Digest | None = None
    """None: it has not gathered."""

    @property
    def settled(self) -> bool:
        """Whether nothing more will happen to it."""
        if self.status == "delivered":
            return self.ack == "none"
        return self.status not in ("scheduled", "stored", "gathered")

    @classmethod
    def from_json(cls, fields: Json) -> Status:
        """Read a status as the API writes it."""
        digest = fields.get("digest")
        return cls(
            id=fields["id"],
            to=fields["to"],
            status=fields["status"],
            priority=fields.get("priority", "normal"),
            ack=fields.get("ack", "any"),
            seq=int(fields.get("seq", 0)),
            created_at=_time(fields, "created_at"),
            send_at=_time(fields, "send_at"),
            expires_at=_time(fields, "expires_at"),
            delivered_at=_time(fields, "delivered_at"),
            settled_at=_time(fields, "settled_at"),
            acked_at=_time(fields, "acked_at"),
            latency_ms=fields.get("latency_ms"),
            attempts=int(fields.get("attempts", 0)),
            reply=fields.get("reply"),
            channels=tuple(
                ChannelStatus(channel=c["channel"], status=c["status"], at=_time(c, "at"), detail=c.get("detail") or "")
                for c in fields.get("channels", ())
            ),
            digest=None if digest is None else Digest(id=digest["id"], due_at=_time(digest, "due_at")),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """One live connection of a recipient."""

    id: str
    """A public name, not the secret that authorises frames."""
    node: str = ""
    device: str = ""
    gateway: str = ""
    """ws, grpc, sse or poll"""
    connected_at: datetime | None = None
    last_seen: datetime | None = None
    unacked: int = 0
    behind: bool = False
    """It does not keep up; what it misses is read from the store."""

    @classmethod
    def from_json(cls, fields: Json) -> Session:
        """Read a session as the API writes it."""
        return cls(
            id=fields["id"],
            node=fields.get("node") or "",
            device=fields.get("device") or "",
            gateway=fields.get("gateway", ""),
            connected_at=_time(fields, "connected_at"),
            last_seen=_time(fields, "last_seen"),
            unacked=int(fields.get("unacked", 0)),
            behind=bool(fields.get("behind", False)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipient:
    """Who gets notifications, and whether they are connected."""

    id: str
    pending: int = 0
    last_seq: int = 0
    last_seen: datetime | None = None
    online: bool = False
    devices: tuple[str, ...] = ()
    """Named devices that ever connected."""
    sessions: tuple[Session, ...] = ()
    endpoints: tuple[Json, ...] = ()
    registrations: tuple[Json, ...] = ()

    @classmethod
    def from_json(cls, fields: Json) -> Recipient:
        """Read a recipient as the API writes it."""
        return cls(
            id=fields["id"],
            pending=int(fields.get("pending", 0)),
            last_seq=int(fields.get("last_seq", 0)),
            last_seen=_time(fields, "last_seen"),
            online=bool(fields.get("online", False)),
            devices=tuple(fields.get("devices") or ()),
            sessions=tuple(Session.from_json(s) for s in fields.get("sessions") or ()),
            endpoints=tuple(fields.get("endpoints") or ()),
            registrations=tuple(fields.get("registrations") or ()),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Preferences:
    """What a recipient says about how it may be reached when a step of an escalation starts."""

    categories: Mapping[str, Sequence[str] | None] = field(default_factory=dict)
    """Over which channels a category may come: None is all of them, an empty list none. "*" is every other category."""
    quiet_hours: tuple[str, str] | None = None
    """From one time of the day until another, like ("22:00", "08:00"). They need a timezone."""
    timezone: str | None = None
    """Like "Europe/Oslo"."""

    @classmethod
    def from_json(cls, fields: Json) -> Preferences:
        """Read preferences as the API writes them."""
        hours = fields.get("quiet_hours")
        return cls(
            categories={name: choice.get("channels") for name, choice in (fields.get("categories") or {}).items()},
            quiet_hours=(hours["from"], hours["to"]) if hours else None,
            timezone=fields.get("timezone"),
        )

    def to_json(self) -> Json:
        """Write preferences as the API reads them."""
        return {
            "categories": {
                name: {} if channels is None else {"channels": list(channels)}
                for name, channels in self.categories.items()
            },
            "quiet_hours": {"from": self.quiet_hours[0], "to": self.quiet_hours[1]} if self.quiet_hours else None,
            "timezone": self.timezone,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One thing that happened in the app."""

    event_id: str
    type: str
    """stored, delivered, acked, replied, expired, replaced, recalled, failed, online or offline; of the steps of an
    escalation step_accepted, step_failed, step_unknown, step_withdrawn and exhausted; of Telegram's buttons pressed; of
    digests gathered and digested"""
    at: datetime
    id: str = ""
    """The notification; empty for online and offline."""
    to: str = ""
    channel: str = ""
    """Over which a step of an escalation sent; else empty."""
    step: int = 0
    """Of the escalation, from 1; 0: none, or not known."""
    detail: str = ""
    """Why, in the words of who refused."""
    reconciled: bool = False
    """It had been lost in a crash, or dropped, and was made anew from what the mailbox says."""

    @classmethod
    def from_json(cls, fields: Json) -> Event:
        """Read an event as the feed writes it."""
        return cls(
            event_id=str(fields["event_id"]),
            type=fields["type"],
            at=parse_time(fields["at"]),
            id=fields.get("id", ""),
            to=fields.get("to", ""),
            channel=fields.get("channel", ""),
            step=fields.get("step", 0),
            detail=fields.get("detail", ""),
            reconciled=fields.get("reconciled", False),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectValue:
    """An object as the server has it."""

    group: str = ""
    object: str = ""
    version: int = 0
    """The newest known one; if unknown, the floor of what can come; 0: there never was one."""
    unknown: bool = False
    payload: Any = None
    """What the back end put along, as JSON: at most 4 KB."""
    changed: bool = False
    """Of a put: whether this made it the current version."""

    @classmethod
    def from_json(cls, fields: Json, group: str = "", name: str = "") -> ObjectValue:
        """Read an object as the API writes it."""
        return cls(
            group=fields.get("group") or group,
            object=fields.get("object") or name,
            version=int(fields.get("version") or 0),
            unknown=bool(fields.get("unknown", False)),
            payload=fields.get("payload"),
            changed=bool(fields.get("changed", False)),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectRegistration:
    """Who follows an object, and which version reached them. A version is 0 where there is none."""

    recipient: str
    device: str = ""
    online: bool = False
    last_seen: datetime | None = None
    sent_version: int = 0
    acked_version: int = 0

    @classmethod
    def from_json(cls, fields: Json) -> ObjectRegistration:
        """Read a registration as the API writes it."""
        return cls(
            recipient=fields["recipient"],
            device=fields.get("device") or "",
            online=bool(fields.get("online", False)),
            last_seen=_time(fields, "last_seen"),
            sent_version=int(fields.get("sent_version") or 0),
            acked_version=int(fields.get("acked_version") or 0),
        )
