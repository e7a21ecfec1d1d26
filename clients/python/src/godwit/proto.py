"""The protobuf form of frames, which gRPC carries."""

from __future__ import annotations

from datetime import datetime, timedelta

from .frames import (
    EPOCH,
    Ack,
    ClientFrame,
    ErrorFrame,
    Goodbye,
    Hello,
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
    ServerFrame,
    Unregister,
    Welcome,
)
from .v1 import client_pb2 as pb

__all__ = ["from_proto", "to_proto"]


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
        case Ping():
            return pb.ClientFrame(ping=pb.Ping(digest=frame.digest))


def from_proto(message: pb.ServerFrame) -> ServerFrame | None:
    """Read a server frame. None: a frame of a later server that this client does not know."""
    match message.WhichOneof("frame"):
        case "welcome":
            return _welcome(message.welcome)
        case "notification":
            return _notification(message.notification)
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
        case "pong":
            return Pong(message.pong.digest)
        case "goodbye":
            return Goodbye(message.goodbye.reason, message.goodbye.retry_after_ms / 1000)
        case "error":
            return ErrorFrame(message.error.code, message.error.message, message.error.field)
    return None


def _millis(seconds: float) -> int:
    return round(seconds * 1000)


def _time(millis: int) -> datetime:
    return EPOCH + timedelta(milliseconds=millis)


def _welcome(w: pb.Welcome) -> Welcome:
    return Welcome(
        session=w.session,
        app=w.app,
        recipient=w.recipient,
        heartbeat=w.heartbeat_ms / 1000,
        digest=w.digest,
        registrations=w.registrations,
        server_time=_time(w.server_time_ms),
    )


_PRIORITIES = {pb.PRIORITY_HIGH: "high", pb.PRIORITY_LOW: "low"}


def _notification(n: pb.Notification) -> Notification:
    return Notification(
        id=n.id,
        seq=n.seq,
        title=n.title,
        body=n.body,
        category=n.category,
        data=n.data,
        content_type=n.content_type or ("application/json" if n.data else ""),
        priority=_PRIORITIES.get(n.priority, "normal"),
        created_at=_time(n.created_at_ms),
        expires_at=_time(n.expires_at_ms),
        attempt=n.attempt,
        reply_by=_time(n.reply_by_ms) if n.reply_by_ms else None,
    )


def _object(o: pb.Object) -> ObjectFrame:
    return ObjectFrame(
        group=o.group,
        object=o.object,
        version=o.version,
        payload=o.payload,
        content_type=o.content_type or ("application/json" if o.payload else ""),
        unknown=o.unknown,
    )
