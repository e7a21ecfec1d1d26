"""What a back end asks of the server, over gRPC."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

from .errors import GodwitError, Problem, ProblemError, UnreachableError
from .extras import needs
from .http import failure, retry
from .publication import is_json
from .results import ChannelStatus, Receipt, Response, Status
from .values import parse_duration, parse_time

try:
    import grpc
    import grpc.aio
    from google.protobuf.message import Message

    from .v1 import client_pb2 as cpb
    from .v1 import publisher_pb2 as pb
except ImportError as e:
    raise needs("grpc", "gRPC", e) from e

__all__ = ["RPC"]

R = TypeVar("R", bound=Message)

_SERVICE = "/godwit.v1.Publisher/"

# The trailer with a failed call's problem.
_PROBLEM = "godwit-problem-bin"

# Statuses of calls that are refused before they reach their method.
_STATUSES = {
    grpc.StatusCode.INVALID_ARGUMENT: 400,
    grpc.StatusCode.UNAUTHENTICATED: 401,
    grpc.StatusCode.PERMISSION_DENIED: 403,
    grpc.StatusCode.RESOURCE_EXHAUSTED: 429,
    grpc.StatusCode.UNIMPLEMENTED: 501,
}

# How many seconds the last events of a closed channel may take to come in.
_LAST_EVENTS = 0.1

_PRIORITIES = {
    "high": cpb.PRIORITY_HIGH,
    "normal": cpb.PRIORITY_NORMAL,
    "low": cpb.PRIORITY_LOW,
}
_ACKS = {"any": pb.ACK_MODE_ANY, "all": pb.ACK_MODE_ALL, "none": pb.ACK_MODE_NONE}


class RPC:
    """Calls godwit.v1.Publisher. Requests are those of the API's JSON, and results the same as over HTTP."""

    def __init__(
        self,
        address: str,
        *,
        credentials: grpc.ChannelCredentials | None,
        options: Sequence[tuple[str, Any]],
        key: str,
        attempts: int,
        timeout: float,
    ) -> None:
        self._address = address
        self._credentials = credentials
        self._options = [("grpc.enable_retries", 0), *options]
        self._key = key
        self._attempts = attempts
        self._timeout = timeout
        self._channel: grpc.aio.Channel | None = None

    def _open(self) -> grpc.aio.Channel:
        """Return the channel. It belongs to the loop of its first call."""
        if self._channel is None:
            if self._credentials is None:
                self._channel = grpc.aio.insecure_channel(self._address, options=self._options)
            else:
                self._channel = grpc.aio.secure_channel(self._address, self._credentials, options=self._options)
        return self._channel

    async def close(self) -> None:
        """Close the channel."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
            await asyncio.sleep(_LAST_EVENTS)  # what comes after the loop is closed is an error in another one

    async def publish(self, request: Mapping[str, Any], headers: Mapping[str, str], doing: str) -> list[Receipt]:
        """Store one notification for one or more recipients."""
        response = await self._call("Publish", _publish(request), pb.PublishResponse, doing, headers=headers)
        return [_receipt(r) for r in response.results]

    async def publish_many(self, requests: Sequence[Mapping[str, Any]]) -> list[Receipt]:
        """Store notifications to one recipient each over one stream, and return a receipt for each.

        The first goes alone: grpcio hides why a stream was refused if it writes at that moment.
        """
        if not requests:
            return []
        receipts = await self.publish(requests[0], {}, "publish batch")
        messages = [_publish(r) for r in requests[1:]]
        if not messages:
            return receipts

        async def send() -> AsyncIterator[pb.PublishRequest]:
            for m in messages:
                yield m

        call = self._open().stream_stream(
            _SERVICE + "PublishStream",
            request_serializer=pb.PublishRequest.SerializeToString,
            response_deserializer=pb.PublishResponse.FromString,
        )(send(), metadata=self._metadata({}))
        try:
            async for response in call:
                receipts.extend(_receipt(r) for r in response.results)
        except grpc.aio.AioRpcError as e:
            raise _error(e, "publish batch") from e
        finally:
            call.cancel()
        if len(receipts) != len(requests):
            raise GodwitError(f"publish batch: {len(receipts)} answers to {len(requests)} notifications")
        return receipts

    async def recall(self, id: str, to: str | None, doing: str) -> int:  # noqa: A002
        """Withdraw copies and return how many."""
        response = await self._call("Recall", pb.RecallRequest(id=id, to=to or ""), pb.RecallResponse, doing)
        return response.recalled

    async def statuses(self, id: str, to: str, doing: str) -> list[Status]:  # noqa: A002
        """Return what became of one copy, or of all."""
        response = await self._call("Status", pb.StatusRequest(id=id, to=to), pb.StatusResponse, doing)
        return [_status(s) for s in response.items]

    async def put_object(self, group: str, name: str, request: Mapping[str, Any], doing: str) -> dict[str, Any]:
        """Change an object and return what the API answers."""
        payload = request.get("payload")
        message = pb.PutObjectRequest(
            group=group,
            object=name,
            version=int(request.get("version", 0)),
            payload=b"" if payload is None else _json(payload),
            content_type="" if payload is None else "application/json",
            unknown=request.get("unknown", False),
            source=request.get("source", ""),
        )
        response = await self._call("PutObject", message, pb.PutObjectResponse, doing)
        return {"version": response.version, "changed": response.changed}

    async def delete_object(self, group: str, name: str, doing: str) -> None:
        """Make an object's version unknown."""
        message = pb.DeleteObjectRequest(group=group, object=name)
        await self._call("DeleteObject", message, pb.DeleteObjectResponse, doing)

    async def publish_message(self, topic: str, data: bytes, content_type: str, doing: str) -> None:
        """Hand a message to a topic's subscribers, once."""
        message = pb.PublishMessageRequest(topic=topic, data=data, content_type=content_type)
        await self._once("PublishMessage", message, pb.PublishMessageResponse, doing, self._timeout)

    async def ask(self, subject: str, data: bytes, content_type: str, wait: float, doing: str) -> Response:
        """Ask a worker, once."""
        message = pb.AskRequest(subject=subject, data=data, content_type=content_type, timeout_ms=round(wait * 1000))
        return _response(await self._once("Ask", message, pb.AskResponse, doing, wait + self._timeout))

    async def ask_recipient(
        self, recipient: str, device: str, subject: str, data: bytes, content_type: str, wait: float, doing: str
    ) -> Response:
        """Ask a session of a recipient, once."""
        message = pb.AskRecipientRequest(
            recipient=recipient,
            device=device,
            subject=subject,
            data=data,
            content_type=content_type,
            timeout_ms=round(wait * 1000),
        )
        return _response(
            await self._once("AskRecipient", message, pb.AskRecipientResponse, doing, wait + self._timeout)
        )

    async def _call(
        self, method: str, message: Message, response: type[R], doing: str, headers: Mapping[str, str] | None = None
    ) -> R:
        """Carry out a call, again after failures that may pass."""
        return await retry(self._attempts, lambda: self._once(method, message, response, doing, self._timeout, headers))

    async def _once(
        self,
        method: str,
        message: Message,
        response: type[R],
        doing: str,
        timeout: float,
        headers: Mapping[str, str] | None = None,
    ) -> R:
        call: grpc.aio.UnaryUnaryMultiCallable[Message, R] = self._open().unary_unary(
            _SERVICE + method,
            request_serializer=lambda m: m.SerializeToString(),
            response_deserializer=response.FromString,
        )
        try:
            return await call(message, timeout=timeout, metadata=self._metadata(headers or {}))
        except grpc.aio.AioRpcError as e:
            raise _error(e, doing, timeout) from e

    def _metadata(self, headers: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
        more = tuple((name.lower(), value) for name, value in headers.items())
        return (("authorization", f"Bearer {self._key}"), *more) if self._key else more


def _error(e: grpc.aio.AioRpcError, doing: str, timeout: float = 0.0) -> GodwitError:
    for name, value in e.trailing_metadata() or ():
        if name == _PROBLEM and isinstance(value, bytes):
            return failure(_problem(pb.Problem.FromString(value)), doing)
    if e.code() in _STATUSES:
        problem = Problem(status=_STATUSES[e.code()], title=e.code().name.lower(), detail=e.details() or "")
        return ProblemError(problem, doing)
    if e.code() is grpc.StatusCode.DEADLINE_EXCEEDED:
        return UnreachableError(f"{doing}: server did not answer in {timeout:g} s")
    return UnreachableError(f"{doing}: reach server: {e.details() or e.code().name.lower()}")


def _problem(p: pb.Problem) -> Problem:
    return Problem(
        status=p.status,
        type=p.type,
        title=p.title,
        detail=p.detail,
        field=p.field,
        retry_after=p.retry_after_ms / 1000,
    )


def _json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()


def _millis(text: str | None) -> int:
    return 0 if not text else round(parse_duration(text).total_seconds() * 1000)


def _moment(text: str | None) -> int:
    return 0 if not text else round(parse_time(text).timestamp() * 1000)


def _time(millis: int) -> datetime | None:
    return datetime.fromtimestamp(millis / 1000, UTC) if millis else None


def _name(names: Mapping[str, int], value: int) -> str:
    return next((name for name, v in names.items() if v == value), "")


def _data(request: Mapping[str, Any]) -> bytes:
    """Return the bytes of what stands in a request as JSON, text or base64."""
    if "data_base64" in request:
        return base64.b64decode(request["data_base64"])
    data = request.get("data")
    content_type = request.get("content_type", "")
    if data is None:
        return b""
    if content_type and not is_json(content_type):
        return str(data).encode()
    return _json(data)


def _publish(request: Mapping[str, Any]) -> pb.PublishRequest:
    to = request["to"]
    message = pb.PublishRequest(
        to=[to] if isinstance(to, str) else to,
        data=_data(request),
        content_type=request.get("content_type", ""),
        ttl_ms=_millis(request.get("ttl")),
        expires_at_ms=_moment(request.get("expires_at")),
        send_at_ms=_moment(request.get("send_at")),
        reply_by_ms=_millis(request.get("reply_by")),
        inbox=request.get("inbox"),
        keep_ms=_millis(request.get("keep")),
        actions=[pb.Action(**a) for a in request.get("actions", ())],
        priority=_PRIORITIES[request["priority"]] if "priority" in request else cpb.PRIORITY_UNSPECIFIED,
        ack=_ACKS[request["ack"]] if "ack" in request else pb.ACK_MODE_UNSPECIFIED,
        variables={name: _variable(value) for name, value in request.get("variables", {}).items()},
        **{name: request.get(name, "") for name in _TEXTS},
    )
    phones = {name: request[name] for name in ("fcm", "apns", "live_activity") if name in request}
    if phones:
        message.phones = json.dumps(phones, allow_nan=False)
    for step in request.get("escalate", ()):
        added = message.escalate.add(
            channel=step["channel"],
            after_ms=_millis(step["after"]),
            settle=step.get("settle", ""),
            to=step.get("to", ""),
        )
        if not step.get("withdraw", True):
            added.withdraw = False
    return message


# The fields of a publish that are texts in both forms.
_TEXTS = ("id", "title", "body", "category", "collapse_key", "digest_key", "template", "locale")


def _variable(value: str | float | bool) -> str:
    """Write a variable as the server does with one in JSON."""
    return value if isinstance(value, str) else json.dumps(value, allow_nan=False)


def _receipt(r: pb.PublishResult) -> Receipt:
    return Receipt(
        id=r.id,
        to=r.to,
        status=r.status,
        duplicate=r.duplicate,
        expires_at=_time(r.expires_at_ms),
        problem=_problem(r.error) if r.HasField("error") else None,
    )


def _status(s: pb.NotificationStatus) -> Status:
    return Status(
        id=s.id,
        to=s.to,
        status=s.status,
        priority=_name(_PRIORITIES, s.priority),
        ack=_name(_ACKS, s.ack),
        seq=s.seq,
        created_at=_time(s.created_at_ms),
        send_at=_time(s.send_at_ms),
        expires_at=_time(s.expires_at_ms),
        delivered_at=_time(s.delivered_at_ms),
        settled_at=_time(s.settled_at_ms),
        acked_at=_time(s.acked_at_ms),
        latency_ms=s.latency_ms if s.HasField("latency_ms") else None,
        attempts=s.attempts,
        reply=_reply(s.reply) if s.HasField("reply") else None,
        channels=tuple(
            ChannelStatus(channel=c.channel, status=c.status, at=_time(c.at_ms), detail=c.detail) for c in s.channels
        ),
    )


def _reply(r: pb.NotificationReply) -> dict[str, Any]:
    """Return an answer in the form that it has in the API's JSON."""
    fields: dict[str, Any] = {"status": r.status, "content_type": r.content_type}
    if not r.data:
        return fields
    try:
        fields["data"] = json.loads(r.data) if is_json(r.content_type) else r.data.decode()
    except ValueError:
        fields["data_base64"] = base64.b64encode(r.data).decode()
    return fields


def _response(a: pb.AskResponse | pb.AskRecipientResponse) -> Response:
    headers: dict[str, tuple[str, ...]] = {}
    for field in a.headers:
        name = field.name.lower()
        headers[name] = (*headers.get(name, ()), field.value)
    return Response(status=a.status, headers=headers, content_type=a.content_type, data=a.data)
