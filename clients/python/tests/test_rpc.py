"""Back ends' calls over gRPC end as they do over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any

import grpc
import grpc.aio
import pytest

from godwit import (
    AsyncClient,
    BatchError,
    Client,
    Escalation,
    ProblemError,
    Publication,
    Reply,
    Request,
    UnreachableError,
    Workers,
)
from godwit.v1 import gateway_pb2 as gateway
from godwit.v1 import publisher_pb2 as publisher
from serving import PATIENCE, Server
from test_listen import listening

pytestmark = pytest.mark.anyio

Call = Callable[[AsyncClient, str], Awaitable[Any]]

AT = datetime.now(UTC).replace(microsecond=0) + timedelta(hours=1)


async def published(c: AsyncClient, name: str) -> Any:
    everything = Publication(
        to="r",
        id=name,
        title="é",
        body="b",
        category="C",
        data={"a": [1, "<&>"]},
        send_at=AT,
        ttl="1h",
        collapse_key=name,
        priority="low",
        ack="all",
        reply_by=60,
    )
    return [await c.publish_batch([everything]), await c.status(name, "r"), await c.statuses(name)]


async def kinds_of_data(c: AsyncClient, name: str) -> Any:
    """What is stored is the same: the second publish, over the other way in, is a duplicate."""
    kinds: list[tuple[Any, str]] = [(0, ""), ("text", "text/plain"), (b"\xff", ""), (b'{"a":1}', ""), (1.5, "")]
    return [
        await c.publish("r-data", id=f"data-{i}", expires_at=AT, data=data, content_type=kind)
        for i, (data, kind) in enumerate(kinds)
    ]


async def objects(c: AsyncClient, name: str) -> Any:
    out = [await c.put_object(name, "o", version=3, payload={"a": 1}, source="r/d")]
    out += [await c.put_object(name, "o", version=3), await c.object(name, "o"), await c.put_object(name, "o")]
    out += [await c.put_object(name, "o", version=9, unknown=True)]
    await c.delete_object(name, "o")
    return [*out, await c.object(name, "o")]


async def recalled(c: AsyncClient, name: str) -> Any:
    await c.publish(["a", "b", "c"], id=name, title="Hi")
    return [await c.recall(name, "a"), await c.recall(name)]


CALLS: dict[str, Call] = {
    "published": published,
    "kinds_of_data": kinds_of_data,
    "objects": objects,
    "recalled": recalled,
    "to several": lambda c, name: c.publish(["r", "a b"], id=name, title="Hi", expires_at=AT),
    "many": lambda c, name: c.publish_batch(
        [
            Publication(to="r", id=f"{name}-1", title="Hi", expires_at=AT),
            Publication(to="a b", id=f"{name}-2"),
            Publication(to="r", id="a b"),
        ]
    ),
    "a bad recipient": lambda c, name: c.publish("a b", id=name, title="Hi"),
    "a bad ttl": lambda c, name: c.publish("r", id=name, title="Hi", ttl="31d"),
    "nothing": lambda c, name: c.publish("r", id=name),
    "no channel": lambda c, name: c.publish(
        "r", id=name, escalate=[Escalation("live"), Escalation("fcm", after=5, withdraw=False)]
    ),
    "an idempotency key": lambda c, _: c.publish("r", title="Hi", idempotency_key="once", expires_at=AT),
    "no notification": lambda c, _: c.status("none", "r"),
    "no copies": lambda c, _: c.statuses("none"),
    "no object": lambda c, name: c.delete_object(name, "none"),
    "a long payload": lambda c, name: c.put_object(name, "o", payload="x" * 5000),
    "nobody": lambda c, _: c.request("nobody", 1),
    "too long": lambda c, _: c.request("nobody", timeout=61),
    "away": lambda c, _: c.request_recipient("away", 1, device="d"),
}


async def outcome(call: Call, client: AsyncClient, name: str) -> Any:
    try:
        return alike(await call(client, name), name)
    except ProblemError as e:
        return type(e), alike(e.problem, name)
    except BatchError as e:
        return type(e), str(e), alike(e.receipts, name)


def alike(value: Any, name: str) -> Any:
    """Return a result without what differs from call to call."""
    if isinstance(value, list | tuple):
        return [alike(v, name) for v in value]
    if isinstance(value, str):
        return value.replace(name, "NAME")
    if is_dataclass(value) and not isinstance(value, type):
        known = {f.name: getattr(value, f.name) for f in fields(value)}
        differing = {"created_at", "updated_at", "at", "seq", "duplicate", "latency_ms"}
        return type(value), {key: alike(v, name) for key, v in known.items() if key not in differing}
    return value


@pytest.mark.parametrize("key", ["dev", "guess"])
@pytest.mark.parametrize("call", CALLS)
async def test_calls_end_as_over_http(server: Server, call: str, key: str) -> None:
    async with (
        AsyncClient(server.url, api_key=key, attempts=1) as over_http,
        AsyncClient(server.url, api_key=key, attempts=1, grpc_address=server.grpc, rpc=True) as by_rpc,
        asyncio.timeout(PATIENCE),
    ):
        name = "".join(c for c in call if c.isalnum())
        want = await outcome(CALLS[call], over_http, f"{name}-http")
        assert await outcome(CALLS[call], by_rpc, f"{name}-grpc") == want


async def test_an_idempotency_key_and_data_are_the_same_both_ways(server: Server) -> None:
    async with (
        AsyncClient(server.url, api_key="dev") as over_http,
        AsyncClient(server.url, api_key="dev", grpc_address=server.grpc, rpc=True) as by_rpc,
        asyncio.timeout(PATIENCE),
    ):
        first = await over_http.publish("both", idempotency_key="both", data={"é": 1})
        again = await by_rpc.publish("both", idempotency_key="both", data={"é": 1})
        assert again == replace(first, duplicate=True)
        await kinds_of_data(over_http, "")
        assert all(r.duplicate for r in await kinds_of_data(by_rpc, ""))


def test_blocking_client_calls_by_rpc(server: Server) -> None:
    with Client(server.url, api_key="dev", grpc_address=server.grpc, rpc=True) as client:
        assert client.put_object("blocking", "o", payload=1).version == 1
        assert client.publish("blocking", title="Hi").status == "stored"


async def test_rpc_needs_an_address() -> None:
    with pytest.raises(ValueError, match="grpc_address"):
        AsyncClient("http://127.0.0.1:1", rpc=True)
    async with AsyncClient("http://127.0.0.1:1", grpc_address="127.0.0.1:1", rpc=True, attempts=1) as client:
        with pytest.raises(UnreachableError, match="publish"):
            await client.publish("r", title="Hi")


async def test_gateway_is_called_with_grpcio(server: Server) -> None:
    """The generated messages and grpcio are enough: the gateway is for programs that know no client library."""
    asked: list[Request] = []

    async def answer(r: Request) -> Reply:
        asked.append(r)
        return Reply(r.data, status=418, headers={"X-Two": ["a", "b"]}, content_type="text/plain")

    workers = Workers(answer)
    workers.serve("tea.>", queue="tea")
    async with (
        AsyncClient(server.url, api_key="dev") as client,
        listening(client, "tea", workers=workers),
        grpc.aio.insecure_channel(server.grpc) as channel,
        asyncio.timeout(PATIENCE),
    ):
        await workers.active()
        call: grpc.aio.UnaryUnaryMultiCallable[gateway.CallRequest, gateway.CallResponse] = channel.unary_unary(
            "/godwit.v1.Gateway/Call",
            request_serializer=gateway.CallRequest.SerializeToString,
            response_deserializer=gateway.CallResponse.FromString,
        )
        key = (("authorization", "Bearer dev"),)
        request = gateway.CallRequest(service="tea", method="POST", path="/pots/7", query="a=1", data=b"leaves")
        got = await call(request, metadata=key)
        assert (got.status, got.content_type, got.data) == (418, "text/plain", b"leaves")
        assert [(h.name, h.value) for h in got.headers] == [("X-Two", "a"), ("X-Two", "b")]
        assert (asked[0].method, asked[0].path, asked[0].query) == ("POST", "/pots/7", "a=1")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call(gateway.CallRequest(service="coffee"), metadata=key)
        assert refused.value.code() is grpc.StatusCode.UNAVAILABLE
        problem = dict(refused.value.trailing_metadata() or ())["godwit-problem-bin"]
        assert isinstance(problem, bytes)
        assert publisher.Problem.FromString(problem).type == "/problems/nobody-serves"
