"""What must not stop a client, whatever a server or whoever published through it makes of it."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc
import grpc.aio
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from godwit import AsyncClient, GodwitError, Notification, Objects, ObjectVersion, UndecodableError
from godwit.digest import digest_of
from godwit.v1 import client_pb2 as pb
from serving import PATIENCE
from test_vectors import cases

pytestmark = pytest.mark.anyio

Case = dict[str, Any]

# The digest of the client's registrations, so that both sides agree from the beginning.
DIGEST = digest_of([("site", "hostile"), ("site", "behind")])


@dataclass
class Verdict:
    """What a client made of a case."""

    acks: set[str] = field(default_factory=set)
    nacks: dict[str, str] = field(default_factory=dict)
    objects: set[str] = field(default_factory=set)
    told: list[GodwitError] = field(default_factory=list)
    handled: dict[str, Notification] = field(default_factory=dict)
    connections: int = 0
    behind: asyncio.Event = field(default_factory=asyncio.Event)

    def take(self, name: str, fields: dict[str, Any]) -> None:
        """Note a client's frame."""
        if name == "ack":
            self.acks.update(fields["ids"])
        elif name == "nack":
            self.nacks.update(dict.fromkeys(fields["ids"], fields["reason"]))
        elif name == "object_ack":
            self.objects.add(fields["object"])
        if "behind" in self.acks and "behind" in self.objects:
            self.behind.set()


def frame(case: Case) -> bytes:
    """Return the bytes of a case's frame."""
    if "json" not in case:
        return base64.b64decode(case["bytes"] if "bytes" in case else case["proto"])
    return "".join(p if isinstance(p, str) else p[0] * p[1] for p in case["json"]).encode()


async def over_websocket(case: Case, verdict: Verdict) -> None:
    async def play(ws: ServerConnection) -> None:
        verdict.connections += 1
        with suppress(ConnectionClosed):
            await ws.recv()
            await ws.send(json.dumps({"welcome": {"session": "s", "heartbeat": "30s", "digest": DIGEST}}))
            await ws.send(frame(case), text=True)
            await ws.send(json.dumps({"notification": {"id": "behind", "seq": 2}}))
            await ws.send(json.dumps({"object": {"group": "site", "object": "behind", "version": "1"}}))
            while True:
                ((name, fields),) = json.loads(await ws.recv()).items()
                verdict.take(name, fields)
                if name == "ping":
                    await ws.send(json.dumps({"pong": {"digest": DIGEST}}))

    async with serve(play, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}") as client:
            await listen(client, verdict)


async def over_grpc(case: Case, verdict: Verdict) -> None:
    async def play(frames: AsyncIterator[pb.ClientFrame], context: grpc.aio.ServicerContext[Any, Any]) -> None:
        verdict.connections += 1
        await anext(frames)
        await context.write(pb.ServerFrame(welcome=pb.Welcome(heartbeat_ms=30_000, digest=DIGEST)).SerializeToString())
        await context.write(frame(case))
        await context.write(pb.ServerFrame(notification=pb.Notification(id="behind")).SerializeToString())
        behind = pb.Object(group="site", object="behind", version=1)
        await context.write(pb.ServerFrame(object=behind).SerializeToString())
        async for sent in frames:
            match sent.WhichOneof("frame"):
                case "ack":
                    verdict.take("ack", {"ids": sent.ack.ids})
                case "nack":
                    verdict.take("nack", {"ids": sent.nack.ids, "reason": sent.nack.reason})
                case "object_ack":
                    verdict.take("object_ack", {"object": sent.object_ack.object})
                case "ping":
                    await context.write(pb.ServerFrame(pong=pb.Pong(digest=DIGEST)).SerializeToString())

    server = grpc.aio.server()
    handler: grpc.RpcMethodHandler[pb.ClientFrame, bytes] = grpc.stream_stream_rpc_method_handler(
        play, request_deserializer=pb.ClientFrame.FromString
    )
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("godwit.v1.Client", {"Connect": handler}),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with AsyncClient("http://127.0.0.1:1", grpc_address=f"127.0.0.1:{port}") as client:
            await listen(client, verdict)
    finally:
        await server.stop(None)


async def listen(client: AsyncClient, verdict: Verdict) -> None:
    """Listen until what is behind the case was acknowledged."""

    async def handle(n: Notification) -> None:
        verdict.handled[n.id] = n
        if n.content_type == "application/json":
            n.json()

    async def follow(_: ObjectVersion) -> None: ...

    objects = Objects(follow, group="site")
    objects.register("hostile", "behind")
    task = asyncio.create_task(client.listen("a", handle, objects=objects, on_error=verdict.told.append))
    behind = asyncio.create_task(verdict.behind.wait())
    await asyncio.wait([task, behind], return_when=asyncio.FIRST_COMPLETED)
    behind.cancel()
    assert not task.done(), task.exception()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("case", cases("hostile"))
async def test_hostile(case: Case) -> None:
    verdict = Verdict()
    play: Callable[[Case, Verdict], Awaitable[None]] = over_grpc if "proto" in case else over_websocket
    async with asyncio.timeout(PATIENCE):
        await play(case, verdict)
    assert verdict.connections == 1
    is_object = case["kind"] == "object"
    good = "hostile" in (verdict.objects if is_object else verdict.acks)
    want = case["want"]
    if want == "either":
        want = "handled" if good else "skipped" if is_object else "nacked"
    assert good == (want == "handled")
    assert ("hostile" in verdict.handled) == (want == "handled" and not is_object)
    assert verdict.nacks.keys() == ({"hostile"} if want == "nacked" else set())
    if want == "handled":
        assert verdict.told == []
        assert is_object or b"Infinity" not in verdict.handled["hostile"].data  # whole, not altered
    elif reason := case.get("reason"):
        (error,) = verdict.told
        assert isinstance(error, UndecodableError)
        assert error.reason.startswith(f"{reason}: ")
        assert verdict.nacks.get("hostile", error.reason) == error.reason
