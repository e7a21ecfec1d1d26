"""The JSON form of frames, which WebSockets carry."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

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
from .unread import MemberError, read_value, split, unread
from .values import check_name, format_duration, parse_duration, parse_time, parse_version

__all__ = ["decode_json", "encode_json"]


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
                observe=frame.observe,
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
        case Subscribe():
            return "subscribe", {"topics": list(frame.topics), **_filled(queue=frame.queue)}
        case Unsubscribe():
            return "unsubscribe", {"topics": list(frame.topics), **_filled(queue=frame.queue)}
        case Serve():
            return "serve", {"subjects": list(frame.subjects), **_filled(queue=frame.queue)}
        case Unserve():
            return "unserve", {"subjects": list(frame.subjects), **_filled(queue=frame.queue)}
        case ReplyFrame():
            return "reply", _reply(frame)
        case Ping():
            return "ping", _filled(digest=frame.digest)


def _reply(frame: ReplyFrame) -> dict[str, Any]:
    headers = {
        name: values[0] if len(values) == 1 else list(values) for name, values in frame.headers.items() if values
    }
    return _filled(
        request_id=frame.request_id,
        id=frame.id,
        status=frame.status,
        headers=headers,
        content_type=frame.content_type,
        **_body(frame.data, frame.content_type),
    )


def _body(data: bytes, content_type: str) -> dict[str, Any]:
    """Return data so that its bytes arrive as they are, and not much longer than they are."""
    try:
        text = data.decode()
        value = json.loads(text) if is_json(content_type) else text
        written = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        if (written == text) if is_json(content_type) else len(written.encode()) <= len(data) * 4 // 3 + 4:
            return {"data": value}
    except (ValueError, RecursionError):
        pass
    return {"data_base64": base64.b64encode(data).decode()}


def _filled(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value}


def _span(seconds: float) -> str:
    return format_duration(seconds) if seconds else ""


def decode_json(text: str | bytes) -> ServerFrame | None:
    """Read a server frame: an object with one key. None: a frame of a later server that this client does not know.

    It never raises: what cannot be read is an Unread.
    """
    try:
        frame = read_value(text)
    except MemberError as e:
        return _salvage(text, e)
    if not isinstance(frame, dict) or len(frame) != 1:
        return unread("frame: is not an object with one key")
    name, fields = frame.popitem()
    if not isinstance(fields, dict):
        return unread("frame: holds no object")
    return _read(name, fields)


def _read(name: str, fields: dict[str, Any]) -> ServerFrame | None:
    read = _READERS.get(name)
    try:
        return None if read is None else read(fields)
    except MemberError as e:
        return unread(str(e), fields, kind=name)


def _salvage(text: str | bytes, error: MemberError) -> ServerFrame | None:
    """Read a frame that is not sound as a whole, member by member.

    What is wrong may be where this client does not look, and if not, there may still be an id to answer with.
    """
    name, raw, whole = split(text.decode(errors="surrogateescape") if isinstance(text, bytes) else text)
    if name not in _MEMBERS:
        return unread(str(error))
    fields: dict[str, Any] = {}
    wrong = None if whole else error
    for member in _MEMBERS[name]:
        try:
            if member in raw:
                fields[member] = read_value(raw[member].encode(errors="surrogateescape"), member)
        except MemberError as e:
            wrong = e
    return _read(name, fields) if wrong is None else unread(str(wrong), fields, kind=name)


_MEMBERS = {
    "notification": (
        *("id", "attempt", "seq", "title", "body", "category", "content_type", "data", "data_base64"),
        *("priority", "created_at", "expires_at", "reply_by"),
    ),
    "object": ("object", "group", "version", "unknown", "content_type", "payload", "payload_base64"),
}


def _text(fields: Mapping[str, Any], name: str) -> str:
    value = fields.get(name)
    if value is None:
        return ""
    if not isinstance(value, str):
        raise MemberError(name, "is not text")
    return _sound(value)


def _sound(text: str) -> str:
    """Replace half surrogate pairs, which no encoding can write."""
    return text if text.isascii() else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _name(fields: Mapping[str, Any], name: str, *, optional: bool = False) -> str:
    value = _text(fields, name)
    if optional and not value:
        return ""
    try:
        return check_name(name, value)
    except ValueError:
        raise MemberError(name, "is not a name") from None


def _whole(fields: Mapping[str, Any], name: str, absent: int = 0) -> int:
    value = fields.get(name)
    if value is None:
        return absent
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise MemberError(name, "is not a whole number in range")
    return value


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if value is not None and not isinstance(value, bool):
        raise MemberError(name, "is neither true nor false")
    return bool(value)


_TIME = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _time(fields: Mapping[str, Any], name: str) -> datetime | None:
    if fields.get(name) is None:
        return None
    text = _text(fields, name)
    try:
        if _TIME.fullmatch(text):
            return parse_time(text)
    except ValueError:
        pass
    raise MemberError(name, "is not a time")


def _texts(fields: Mapping[str, Any], name: str = "ids") -> tuple[str, ...]:
    values = fields.get(name)
    if values is None:
        return ()
    if not isinstance(values, list) or not all(isinstance(value, str) for value in values):
        raise MemberError(name, "is not a list of texts")
    return tuple(values)


def _duration(fields: Mapping[str, Any], name: str) -> float:
    value = fields.get(name)
    try:
        return 0.0 if value is None else parse_duration(str(value)).total_seconds()
    except ValueError:
        raise MemberError(name, "is not a duration") from None


def _version(fields: Mapping[str, Any]) -> int:
    value = fields.get("version")
    if value in (None, "", "0", 0) and not isinstance(value, bool):
        return 0
    try:
        if isinstance(value, str | int) and not isinstance(value, bool):
            return parse_version(value)
    except ValueError:
        pass
    raise MemberError("version", "is not a whole number from 1 to 2^63-1")


def _content(fields: Mapping[str, Any], name: str) -> tuple[bytes, str]:
    """Return the bytes and the content type of `data` or `data_base64`."""
    content_type = _text(fields, "content_type")
    if fields.get(f"{name}_base64") is not None:
        try:
            return base64.b64decode(_text(fields, f"{name}_base64"), validate=True), content_type
        except ValueError:
            raise MemberError(f"{name}_base64", "is not base64") from None
    if name not in fields:
        return b"", content_type
    value = fields[name]
    if content_type and not is_json(content_type):
        if not isinstance(value, str):
            raise MemberError(name, "is not text although its content type says so")
        return _sound(value).encode(), content_type
    return _written(name, value), content_type or "application/json"  # it is left out where it is the usual one


def _written(name: str, value: Any) -> bytes:
    try:
        try:
            return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
        except UnicodeEncodeError:  # half a surrogate pair
            return json.dumps(value, separators=(",", ":")).encode()
    except RecursionError:
        raise MemberError(name, "is nested too deeply") from None


def _welcome(fields: dict[str, Any]) -> Welcome:
    return Welcome(
        session=_text(fields, "session"),
        app=_text(fields, "app"),
        recipient=_text(fields, "recipient"),
        heartbeat=_duration(fields, "heartbeat"),
        digest=_text(fields, "digest"),
        registrations=_whole(fields, "registrations"),
        server_time=_time(fields, "server_time") or EPOCH,
        inbox=_welcome_inbox(fields),
    )


def _welcome_inbox(fields: Mapping[str, Any]) -> InboxNews | None:
    counts = fields.get("inbox")
    if counts is None:
        return None
    if not isinstance(counts, dict):
        raise MemberError("inbox", "is not an object")
    return _inbox(counts)


def _notification(fields: dict[str, Any]) -> Notification:
    data, content_type = _content(fields, "data")
    priority = _text(fields, "priority")
    return Notification(
        id=_name(fields, "id"),
        seq=_whole(fields, "seq"),
        title=_text(fields, "title"),
        body=_text(fields, "body"),
        category=_text(fields, "category"),
        data=data,
        content_type=content_type,
        priority=priority if priority in ("high", "low") else "normal",  # also one of a later server
        created_at=_time(fields, "created_at") or EPOCH,
        expires_at=_time(fields, "expires_at") or EPOCH,
        attempt=_whole(fields, "attempt", 1),
        reply_by=_time(fields, "reply_by"),
    )


def _object(fields: dict[str, Any]) -> ObjectFrame:
    payload, content_type = _content(fields, "payload")
    return ObjectFrame(
        group=_name(fields, "group", optional=True),
        object=_name(fields, "object"),
        version=_version(fields),
        payload=payload,
        content_type=content_type,
        unknown=_flag(fields, "unknown"),
    )


def _message(fields: dict[str, Any]) -> Message | MessageGap:
    if gap := _whole(fields, "gap"):
        return MessageGap(gap)
    data, content_type = _content(fields, "data")
    return Message(topic=_text(fields, "topic"), data=data, content_type=content_type)


def _request(fields: dict[str, Any]) -> Request:
    data, content_type = _content(fields, "data")
    return Request(
        request_id=_text(fields, "request_id"),
        subject=_text(fields, "subject"),
        method=_text(fields, "method"),
        path=_text(fields, "path"),
        query=_text(fields, "query"),
        headers=_headers(fields),
        content_type=content_type,
        data=data,
        deadline=_time(fields, "deadline") or EPOCH,
    )


def _headers(fields: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    given = fields.get("headers") or {}
    if not isinstance(given, dict):
        raise MemberError("headers", "is not an object")
    return {_sound(name): (value,) if isinstance(value, str) else _texts(given, name) for name, value in given.items()}


def _states(fields: Mapping[str, Any], name: str) -> tuple[InboxState, ...]:
    given = fields.get(name) or []
    if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
        raise MemberError(name, "is not a list of objects")
    return tuple(
        InboxState(
            id=_text(each, "id"),
            seen=_flag(each, "seen"),
            read=_flag(each, "read"),
            archived=_flag(each, "archived"),
            pinned=_flag(each, "pinned"),
            answered=_text(each, "answered"),
        )
        for each in given
    )


def _inbox(fields: Mapping[str, Any]) -> InboxNews:
    return InboxNews(
        unseen=_whole(fields, "unseen"),
        unread=_whole(fields, "unread"),
        changed=_texts(fields, "changed"),
        more=_flag(fields, "more"),
        marked=_states(fields, "marked"),
    )


_READERS: dict[str, Callable[[dict[str, Any]], ServerFrame]] = {
    "welcome": _welcome,
    "notification": _notification,
    "recall": lambda f: Recall(_texts(f)),
    "inbox": _inbox,
    "registered": lambda f: Registered(_texts(f, "objects"), _text(f, "digest"), _text(f, "group")),
    "registration_failed": lambda f: RegistrationFailed(
        _texts(f, "objects"), _text(f, "code"), _flag(f, "transient"), _text(f, "group")
    ),
    "object": _object,
    "message": _message,
    "request": _request,
    "pong": lambda f: Pong(_text(f, "digest")),
    "goodbye": lambda f: Goodbye(_text(f, "reason"), _duration(f, "retry_after")),
    "error": lambda f: ErrorFrame(_text(f, "code"), _text(f, "message"), _text(f, "field"), _texts(f, "refused")),
}
