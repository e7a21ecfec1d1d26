"""The cases that the server and every client library must pass."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict
from datetime import timedelta
from typing import Any

import pytest

from godwit.digest import digest_of, format_digest, object_hash
from godwit.frames import (
    Ack,
    ClientFrame,
    Hello,
    MessageGap,
    Nack,
    Notification,
    ObjectAck,
    Ping,
    Register,
    Reply,
    Request,
    Serve,
    Subscribe,
    Unregister,
    Unserve,
    Unsubscribe,
)
from godwit.jsonframes import decode_json, encode_json
from godwit.proto import from_proto, to_proto
from godwit.publication import encode_data
from godwit.v1 import client_pb2 as pb
from godwit.values import check_name, parse_duration, parse_version
from serving import ROOT


def cases(name: str) -> list[Any]:
    found = json.loads((ROOT / "api" / "vectors" / f"{name}.json").read_text())["cases"]
    assert found
    return [pytest.param(case, id=str(case.get("name", case.get("text", i)))[:40]) for i, case in enumerate(found)]


@pytest.mark.parametrize("case", cases("names"))
def test_name(case: dict[str, Any]) -> None:
    if case["valid"]:
        assert check_name("object", case["name"]) == case["name"]
    else:
        with pytest.raises(ValueError, match="is not a name"):
            check_name("object", case["name"])


@pytest.mark.parametrize("case", cases("durations"))
def test_duration(case: dict[str, Any]) -> None:
    if case.get("ms") is None:
        with pytest.raises(ValueError, match="duration"):
            parse_duration(case["text"])
    else:
        assert parse_duration(case["text"]) == timedelta(milliseconds=case["ms"])


@pytest.mark.parametrize("case", cases("digests"))
def test_digest(case: dict[str, Any]) -> None:
    objects = [(o["group"], o["object"]) for o in case["objects"]]
    assert digest_of(objects) == case["digest"]
    total = sum(object_hash(*o) for o in objects)
    for o in objects:  # what was added can be taken out again
        total -= object_hash(*o)
    assert format_digest(total) == "0" * 16


def client_frame(name: str, fields: dict[str, Any]) -> ClientFrame:
    """Make the frame that a vector's JSON describes."""
    match name:
        case "hello":
            heartbeat = parse_duration(str(fields.pop("heartbeat", 0))).total_seconds()
            return Hello(**{**fields, "held": tuple(fields.get("held", ()))}, heartbeat=heartbeat)
        case "ack":
            return Ack(tuple(fields["ids"]))
        case "nack":
            after = parse_duration(str(fields.get("after", 0))).total_seconds()
            return Nack(tuple(fields["ids"]), after, fields.get("reason", ""))
        case "register":
            return Register(
                tuple(fields.get("objects", ())),
                fields.get("group", ""),
                fields.get("reset", False),
                fields.get("more", False),
            )
        case "unregister":
            return Unregister(tuple(fields["objects"]), fields.get("group", ""))
        case "object_ack":
            return ObjectAck(fields["object"], parse_version(fields["version"]), fields.get("group", ""))
        case "subscribe":
            return Subscribe(tuple(fields["topics"]), fields.get("queue", ""))
        case "unsubscribe":
            return Unsubscribe(tuple(fields["topics"]), fields.get("queue", ""))
        case "serve":
            return Serve(tuple(fields["subjects"]), fields.get("queue", ""))
        case "unserve":
            return Unserve(tuple(fields["subjects"]), fields.get("queue", ""))
        case "reply":
            reply = Reply(
                base64.b64decode(fields["data_base64"]) if "data_base64" in fields else fields["data"],
                status=fields["status"],
                headers=fields.get("headers"),
                content_type=fields.get("content_type", ""),
            )
            if "id" in fields:
                return reply.to(Notification(id=fields["id"]))
            return reply.to(Request(request_id=fields["request_id"]))
        case "ping":
            return Ping(fields.get("digest", ""))
    raise AssertionError(f"a frame this client does not send: {name}")


def spans_in_ms(frame: dict[str, Any]) -> dict[str, Any]:
    """Durations compare by value, whatever their unit; so do versions and what is left out because it is empty."""
    ((name, fields),) = frame.items()
    fields = {k: v for k, v in fields.items() if v not in (False, "")}
    for span in ("heartbeat", "after"):
        if span in fields:
            fields[span] = parse_duration(str(fields[span]))
    if "version" in fields:
        fields["version"] = int(fields["version"])
    if name == "reply":
        fields.setdefault("content_type", "application/json")
    return {name: fields}


@pytest.mark.parametrize("case", [c for c in cases("client_frames") if "json" in c.values[0]])
def test_client_frame(case: dict[str, Any]) -> None:
    ((name, fields),) = case["json"].items()
    frame = client_frame(name, dict(fields))
    assert spans_in_ms(json.loads(encode_json(frame))) == spans_in_ms(case["json"])
    assert to_proto(frame) == pb.ClientFrame.FromString(base64.b64decode(case["proto"]))


@pytest.mark.parametrize("case", cases("server_frames"))
def test_server_frame(case: dict[str, Any]) -> None:
    from_json = decode_json(json.dumps(case["json"]))
    assert from_json == from_proto(pb.ServerFrame.FromString(base64.b64decode(case["proto"])))
    (fields,) = case["json"].values()
    if "gap" in fields:
        assert from_json == MessageGap(fields["gap"])
        return
    for field, value in fields.items():  # nothing that the frame says is dropped
        read = getattr(from_json, field.removesuffix("_base64"))
        if field in ("heartbeat", "retry_after"):
            assert read == parse_duration(str(value)).total_seconds()
        elif field == "version":
            assert read == int(value)
        elif field == "payload":
            assert read
        elif field == "data":
            assert (read.decode() if isinstance(value, str) else json.loads(read)) == value
        elif field in ("payload_base64", "data_base64"):
            assert read == base64.b64decode(value)
        elif field == "headers":
            assert read == {n: (v,) if isinstance(v, str) else tuple(v) for n, v in value.items()}
        elif field == "marked":
            assert [{k: v for k, v in asdict(m).items() if v} for m in read] == value
        elif field == "inbox":
            assert (read.unseen, read.unread) == (value["unseen"], value["unread"])
        elif field in ("server_time", "deadline"):
            assert read.isoformat(timespec="milliseconds") == value.replace("Z", "+00:00")
        else:
            assert read == (tuple(value) if isinstance(value, list) else value)


def by_value(data: bytes, content_type: str) -> Any:
    """JSON compares by value: over protobuf it travels as it was published."""
    return json.loads(data) if content_type.endswith("json") else data


@pytest.mark.parametrize("case", cases("notifications"))
def test_notification(case: dict[str, Any]) -> None:
    from_json = decode_json(json.dumps(case["json"]))
    from_binary = from_proto(pb.ServerFrame.FromString(base64.b64decode(case["proto"])))
    assert isinstance(from_json, Notification)
    assert isinstance(from_binary, Notification)
    content = case["content"]
    published = base64.b64decode(content.get("data_base64", ""))
    for got in (from_json, from_binary):
        assert (got.id, got.seq, got.attempt, got.priority) == (
            "ride-9f3",
            case["seq"],
            case["attempt"],
            case["priority"],
        )
        assert (got.title, got.body) == (content.get("title", ""), content.get("body", ""))
        assert got.category == content.get("category", "")
        assert got.created_at.isoformat(timespec="milliseconds") == "2026-11-21T00:00:00.123+00:00"
        assert got.expires_at - got.created_at == timedelta(seconds=30)
        assert got.content_type == content.get("content_type", "")
        if published:
            assert by_value(got.data, got.content_type) == by_value(published, got.content_type)
        else:
            assert got.data == b""


@pytest.mark.parametrize("case", [c for c in cases("notifications") if "data_base64" in c.values[0]["content"]])
def test_data_is_published_as_it_arrives(case: dict[str, Any]) -> None:
    content = case["content"]
    sent = encode_data(base64.b64decode(content["data_base64"]), content["content_type"])
    arrived = case["json"]["notification"]
    for field in ("data", "data_base64"):
        assert sent.get(field) == arrived.get(field)
