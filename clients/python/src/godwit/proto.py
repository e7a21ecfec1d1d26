"""The protobuf form of frames, which gRPC carries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any

from google.protobuf.message import DecodeError

from .frames import (
    EPOCH,
    Ack,
    ClientFrame,
    ErrorFrame,
    Goodbye,
    Hello,
    InboxNews,
    InboxState,
    Message,
    MessageGap,
    Nack,
    Notification,
    ObjectAck,
    ObjectFrame,
    Ping,
    Pong,
    Recall,
    Register,
    Registered,
    RegistrationFailed,
    ReplyFrame,
    Request,
    Serve,
    ServerFrame,
    Subscribe,
    Unregister,
    Unserve,
    Unsubscribe,
    Welcome,
)
from .publication import is_json
from .unread import MemberError, read_value, unread
from .v1 import client_pb2 as pb
from .values import check_name

__all__ = ["decode_proto", "from_proto", "to_proto"]


def to_proto(frame: ClientFrame) -> pb.ClientFrame:
    """Write a client frame as protobuf."""
    match frame:
        case Hello():
            hello = pb.Hello(
                app=frame.app,
                token=frame.token,
                recipient=frame.recipient,
                group=frame.group,
                device=frame.device,
                digest=frame.digest,
                held=frame.held,
                window=frame.window,
                heartbeat_ms=_millis(frame.heartbeat),
                observe=frame.observe,
            )
            return pb.ClientFrame(hello=hello)
        case Ack():
            return pb.ClientFrame(ack=pb.Ack(ids=frame.ids))
        case Nack():
            return pb.ClientFrame(nack=pb.Nack(ids=frame.ids, after_ms=_millis(frame.after), reason=frame.reason))
        case Register():
            register = pb.Register(objects=frame.objects, group=frame.group, reset=frame.reset, more=frame.more)
            return pb.ClientFrame(register=register)
        case Unregister():
            return pb.ClientFrame(unregister=pb.Register(objects=frame.objects, group=frame.group))
        case ObjectAck():
            ack = pb.ObjectAck(object=frame.object, group=frame.group, version=frame.version)
            return pb.ClientFrame(object_ack=ack)
        case Subscribe():
            return pb.ClientFrame(subscribe=pb.Subscribe(topics=frame.topics, queue=frame.queue))
        case Unsubscribe():
            return pb.ClientFrame(unsubscribe=pb.Subscribe(topics=frame.topics, queue=frame.queue))
        case Serve():
            return pb.ClientFrame(serve=pb.Serve(subjects=frame.subjects, queue=frame.queue))
        case Unserve():
            return pb.ClientFrame(unserve=pb.Serve(subjects=frame.subjects, queue=frame.queue))
        case ReplyFrame():
            return pb.ClientFrame(reply=_reply(frame))
        case Ping():
            return pb.ClientFrame(ping=pb.Ping(digest=frame.digest))


def _reply(frame: ReplyFrame) -> pb.Reply:
    return pb.Reply(
        request_id=frame.request_id,
        id=frame.id,
        status=frame.status,
        headers={name: values[0] for name, values in frame.headers.items() if len(values) == 1},
        header_fields=[
            pb.HeaderField(name=name, value=v)
            for name, values in frame.headers.items()
            if len(values) > 1
            for v in values
        ],
        data=frame.data,
        content_type=frame.content_type,
    )


def decode_proto(data: bytes) -> ServerFrame | None:
    """Read a server frame as it came. It never raises: what cannot be read is an Unread."""
    try:
        return from_proto(pb.ServerFrame.FromString(data))
    except DecodeError:
        return _salvage(data)


def from_proto(message: pb.ServerFrame) -> ServerFrame | None:
    """Read a server frame. None: a frame of a later server that this client does not know."""
    kind = message.WhichOneof("frame")
    try:
        return _read(message, kind)
    except MemberError as e:
        inner = getattr(message, kind or "")
        named = ("group", "object") if kind == "object" else ("id", "attempt")
        return unread(str(e), {name: getattr(inner, name, None) for name in named}, kind=kind or "")


def _read(message: pb.ServerFrame, kind: str | None) -> ServerFrame | None:
    match kind:
        case "welcome":
            return _welcome(message.welcome)
        case "notification":
            return _notification(message.notification)
        case "inbox":
            return _inbox(message.inbox)
        case "recall":
            return Recall(tuple(message.recall.ids))
        case "registered":
            registered = message.registered
            return Registered(tuple(registered.objects), registered.digest, registered.group)
        case "registration_failed":
            failed = message.registration_failed
            return RegistrationFailed(tuple(failed.objects), failed.code, failed.transient, failed.group)
        case "object":
            return _object(message.object)
        case "message":
            return _message(message.message)
        case "request":
            return _request(message.request)
        case "pong":
            return Pong(message.pong.digest)
        case "goodbye":
            return Goodbye(message.goodbye.reason, message.goodbye.retry_after_ms / 1000)
        case "error":
            e = message.error
            return ErrorFrame(e.code, e.message, e.field, tuple(e.refused))
    return None


def _millis(seconds: float) -> int:
    return round(seconds * 1000)


def _time(millis: int, name: str) -> datetime:
    try:
        return EPOCH + timedelta(milliseconds=millis)
    except OverflowError:
        raise MemberError(name, "is outside the years 1 to 9999") from None


def _name(name: str, value: str) -> str:
    try:
        return check_name(name, value)
    except ValueError:
        raise MemberError(name, "is not a name") from None


def _content(name: str, data: bytes, content_type: str) -> tuple[bytes, str]:
    if data and (not content_type or is_json(content_type)):
        read_value(data, name)
        content_type = content_type or "application/json"
    return data, content_type


def _welcome(w: pb.Welcome) -> Welcome:
    return Welcome(
        session=w.session,
        app=w.app,
        recipient=w.recipient,
        heartbeat=w.heartbeat_ms / 1000,
        digest=w.digest,
        registrations=w.registrations,
        server_time=_time(w.server_time_ms, "server_time"),
        inbox=_inbox(w.inbox) if w.HasField("inbox") else None,
    )


def _inbox(n: pb.Inbox) -> InboxNews:
    marked = tuple(
        InboxState(id=m.id, seen=m.seen, read=m.read, archived=m.archived, pinned=m.pinned, answered=m.answered)
        for m in n.marked
    )
    return InboxNews(unseen=n.unseen, unread=n.unread, changed=tuple(n.changed), more=n.more, marked=marked)


_PRIORITIES = {pb.PRIORITY_HIGH: "high", pb.PRIORITY_LOW: "low"}


def _notification(n: pb.Notification) -> Notification:
    data, content_type = _content("data", n.data, n.content_type)
    return Notification(
        id=_name("id", n.id),
        seq=n.seq,
        title=n.title,
        body=n.body,
        category=n.category,
        data=data,
        content_type=content_type,
        priority=_PRIORITIES.get(n.priority, "normal"),
        created_at=_time(n.created_at_ms, "created_at"),
        expires_at=_time(n.expires_at_ms, "expires_at"),
        attempt=n.attempt,
        reply_by=_time(n.reply_by_ms, "reply_by") if n.reply_by_ms else None,
    )


def _object(o: pb.Object) -> ObjectFrame:
    if o.version < 0:
        raise MemberError("version", "is negative")
    payload, content_type = _content("payload", o.payload, o.content_type)
    return ObjectFrame(
        group=_name("group", o.group) if o.group else "",
        object=_name("object", o.object),
        version=o.version,
        payload=payload,
        content_type=content_type,
        unknown=o.unknown,
    )


def _message(m: pb.Message) -> Message | MessageGap:
    if m.gap:
        return MessageGap(m.gap)
    return Message(topic=m.topic, data=m.data, content_type=m.content_type)


def _request(r: pb.Request) -> Request:
    headers: dict[str, tuple[str, ...]] = {name: (value,) for name, value in r.headers.items()}
    for f in r.header_fields:
        headers[f.name] = (*headers.get(f.name, ()), f.value)
    return Request(
        request_id=r.request_id,
        subject=r.subject,
        method=r.method,
        path=r.path,
        query=r.query,
        headers=headers,
        content_type=r.content_type,
        data=r.data,
        deadline=_time(r.deadline_ms, "deadline"),
    )


# Of the fields of frames: what it takes to say what is wrong, and with which notification or object.
_KINDS = {2: "notification", 6: "object"}
_TEXTS = {
    "notification": {3: "id", 4: "title", 5: "body", 6: "category", 8: "content_type"},
    "object": {1: "group", 2: "object", 6: "content_type"},
}
_ATTEMPT = 2


def _salvage(data: bytes) -> ServerFrame:
    """Find out whose frame it is that cannot be read."""
    kind, inner, reason = "", b"", ""
    for number, value in _walk(data, broken=True):
        if isinstance(value, bytes) and number in _KINDS:
            kind, inner = _KINDS[number], value
    names = _TEXTS.get(kind, {})
    fields: dict[str, Any] = {}
    for number, value in _walk(inner):
        if isinstance(value, bytes) and number in names:
            try:
                fields[names[number]] = value.decode()
            except UnicodeDecodeError:
                reason = reason or f"{names[number]}: is not UTF-8"
        elif isinstance(value, int) and kind == "notification" and number == _ATTEMPT:
            fields["attempt"] = value
    return unread(reason or "frame: is not protobuf", fields, kind=kind)


def _walk(data: bytes, *, broken: bool = False) -> Iterator[tuple[int, bytes | int]]:
    """Go through fields until the end, or until what follows is none; with broken also the one that breaks off."""
    at = 0
    try:
        while at < len(data):
            tag, at = _varint(data, at)
            match tag & 7:
                case 0:
                    value, at = _varint(data, at)
                    yield tag >> 3, value
                case 2:
                    size, at = _varint(data, at)
                    if at + size <= len(data) or broken:
                        yield tag >> 3, data[at : at + size]
                    at += size
                case 1 | 5 as fixed:
                    at += 8 if fixed == 1 else 4
                case _:
                    return
    except IndexError:
        return


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 127) << shift
        shift += 7
        if byte < 128 or shift > 63:
            return value, at
