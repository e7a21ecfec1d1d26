"""What a listener makes of a server that behaves in ways a real one seldom does."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from godwit import AsyncClient, GodwitError, GoodbyeError, NackAfter, Notification, RefusedError, Token
from godwit.digest import EMPTY_DIGEST, digest_of
from godwit.notify import Connection, Notify, RegistrationStatus
from serving import PATIENCE

pytestmark = pytest.mark.anyio

Script = Callable[["Peer", int], Awaitable[None]]


class Peer:
    """The server's side of one connection."""

    def __init__(self, ws: ServerConnection) -> None:
        self.ws = ws

    async def send(self, name: str, **fields: Any) -> None:
        await self.ws.send(json.dumps({name: fields}))

    async def recv(self, name: str) -> dict[str, Any]:
        """Return the next frame of that name; pings are answered."""
        while True:
            ((kind, fields),) = json.loads(await self.ws.recv()).items()
            if kind == name:
                return dict(fields)
            if kind == "ping":
                await self.send("pong")

    async def welcome(self, heartbeat: str = "30s") -> dict[str, Any]:
        hello = await self.recv("hello")
        await self.send("welcome", session="s", app="demo", recipient="a", heartbeat=heartbeat)
        return hello

    async def stay(self) -> None:
        with contextlib.suppress(ConnectionClosed):
            await self.recv("nothing")


@contextlib.asynccontextmanager
async def playing(script: Script, **options: Any) -> AsyncIterator[AsyncClient]:
    """Run the script for every connection, numbered from 0."""
    count = iter(range(1000))

    async def play(ws: ServerConnection) -> None:
        with contextlib.suppress(ConnectionClosed):
            await script(Peer(ws), next(count))

    async with serve(play, "127.0.0.1", 0) as server, asyncio.timeout(PATIENCE):
        port = next(iter(server.sockets)).getsockname()[1]
        async with AsyncClient(f"http://127.0.0.1:{port}", **options) as client:
            yield client


class Ends:
    """Keeps why connections ended, and when the next is tried."""

    def __init__(self) -> None:
        self.seen: list[tuple[GodwitError, float]] = []
        self.more = asyncio.Event()

    def __call__(self, error: GodwitError, delay: float) -> None:
        self.seen.append((error, delay))
        self.more.set()

    async def wait(self, count: int) -> None:
        while len(self.seen) < count:
            self.more.clear()
            await self.more.wait()


async def until(done: asyncio.Event, client: AsyncClient, *args: Any, **options: Any) -> None:
    """Listen until something has happened."""
    task = asyncio.create_task(client.listen(*args, **options))
    wait = asyncio.create_task(done.wait())
    await asyncio.wait([task, wait], return_when=asyncio.FIRST_COMPLETED)
    wait.cancel()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_redelivery_is_acknowledged_again_and_handled_once() -> None:
    handled: list[str] = []
    done = asyncio.Event()
    acks: list[Any] = []

    async def script(peer: Peer, connection: int) -> None:
        await peer.welcome()
        await peer.send("notification", id="x", seq=1, title="t", attempt=connection + 1)
        acks.append((await peer.recv("ack"))["ids"])
        if connection == 0:
            return  # as if the acknowledgement had been lost
        done.set()
        await peer.stay()

    async def handle(n: Notification) -> None:
        handled.append(n.id)

    async with playing(script) as client:
        await until(done, client, "a", handle)
    assert acks == [["x"], ["x"]]
    assert handled == ["x"]


async def test_silent_server_is_given_up_after_two_heartbeats() -> None:
    async def script(peer: Peer, connection: int) -> None:
        await peer.welcome(heartbeat="1s")
        if connection == 0:
            await peer.ws.wait_closed()  # not even an answer to pings
        done.set()
        await peer.stay()

    done = asyncio.Event()
    ends = Ends()
    start = asyncio.get_running_loop().time()
    async with playing(script) as client:
        await until(done, client, "a", on_disconnect=ends)
    assert 2 <= asyncio.get_running_loop().time() - start < 8
    assert "silent for two heartbeats" in str(ends.seen[0][0])


async def test_goodbye_says_when_to_come_back() -> None:
    came: list[float] = []
    done = asyncio.Event()

    async def script(peer: Peer, connection: int) -> None:
        came.append(asyncio.get_running_loop().time())
        await peer.welcome()
        if connection == 0:
            await peer.send("goodbye", reason="shutdown", retry_after="700ms")
            return
        done.set()
        await peer.stay()

    ends = Ends()
    async with playing(script) as client:
        await until(done, client, "a", on_disconnect=ends)
    error, delay = ends.seen[0]
    assert isinstance(error, GoodbyeError)
    assert (error.reason, delay) == ("shutdown", 0.7)
    assert came[1] - came[0] >= 0.65


async def test_token_that_was_renewed_too_late_is_good_for_the_next_connection() -> None:
    now = datetime.now(UTC)
    tokens = [Token("first", now + timedelta(seconds=0.5)), Token("second", now + timedelta(hours=1))]
    done = asyncio.Event()

    async def script(peer: Peer, connection: int) -> None:
        shown.append((await peer.welcome())["token"])
        if connection == 0:
            shown.append((await peer.recv("hello"))["token"])
            await peer.send("goodbye", reason="token_expired")  # of the first, before the second was read
            return
        done.set()
        await peer.stay()

    shown: list[str] = []
    async with playing(script, token=lambda: tokens.pop(0) if len(tokens) > 1 else tokens[0]) as client:
        await until(done, client, "a")
    assert shown == ["first", "second", "second"]


async def test_first_retry_is_at_once_and_later_ones_wait() -> None:
    async def script(peer: Peer, connection: int) -> None:
        await peer.ws.close()

    ends = Ends()
    async with playing(script) as client:
        task = asyncio.create_task(client.listen("a", on_disconnect=ends))
        await ends.wait(3)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
    delays = [delay for _, delay in ends.seen[:3]]
    assert delays[0] == 0
    assert 0 < delays[1] <= 1
    assert 0 < delays[2] <= 2


async def test_handler_that_asks_for_the_impossible_gets_what_can_be_had() -> None:
    done = asyncio.Event()
    nacks: dict[str, Any] = {}

    async def script(peer: Peer, _: int) -> None:
        await peer.welcome()
        for name in ("nan", "inf", "-1"):
            await peer.send("notification", id=name, seq=1)
            nacks[name] = await peer.recv("nack")
        done.set()
        await peer.stay()

    async def handle(n: Notification) -> None:
        raise NackAfter(float(n.id), "\ud800" + "x" * 2000)

    ends = Ends()
    async with playing(script) as client:
        await until(done, client, "a", handle, on_disconnect=ends)
    assert ends.seen == []
    assert {name: nack["after"] for name, nack in nacks.items()} == {"nan": "1ms", "inf": "86400000ms", "-1": "1ms"}
    assert all(nack["reason"] == "?" + "x" * 999 for nack in nacks.values())


async def test_frames_of_a_later_server_are_passed_over() -> None:
    done = asyncio.Event()

    async def script(peer: Peer, _: int) -> None:
        await peer.welcome()
        await peer.send("dance", steps=3)
        await peer.send("error", code="bad_frame", message="what?")
        await peer.send("notification", id="x", seq=1, later="field")
        await peer.recv("ack")
        done.set()
        await peer.stay()

    ends = Ends()

    async def handle(_: Notification) -> None: ...

    async with playing(script) as client:
        await until(done, client, "a", handle, on_disconnect=ends)
    assert ends.seen == []


async def test_hello_says_what_was_asked_for() -> None:
    done = asyncio.Event()
    hellos: list[dict[str, Any]] = []

    async def script(peer: Peer, _: int) -> None:
        hellos.append(await peer.welcome())
        done.set()
        await peer.stay()

    async with playing(script) as client:
        options = {"device": "d", "group": "g", "window": 7, "heartbeat": "10m", "held": lambda: ["x"]}
        await until(done, client, "a", **options)
    assert hellos == [
        {"recipient": "a", "device": "d", "group": "g", "window": 7, "heartbeat": "600000ms", "held": ["x"]}
    ]


async def test_refused_hello_ends_it() -> None:
    async def script(peer: Peer, _: int) -> None:
        await peer.recv("hello")
        await peer.send("error", code="bad_field", message="recipient is required", field="recipient")
        await peer.stay()

    async with playing(script) as client:
        with pytest.raises(RefusedError, match="recipient is required"):
            await client.listen("")


async def test_callback_that_raises_ends_nothing() -> None:
    done = asyncio.Event()

    async def script(peer: Peer, _: int) -> None:
        await peer.welcome()
        await peer.send("recall", ids=["x"])
        await peer.send("notification", id="y", seq=1)
        await peer.recv("ack")
        done.set()
        await peer.stay()

    def fail(*_: object) -> None:
        raise ValueError("no")

    ends = Ends()

    async def handle(_: Notification) -> None: ...

    async with playing(script) as client:
        await until(done, client, "a", handle, on_connect=fail, on_recall=fail, on_disconnect=ends)
    assert ends.seen == []


async def test_sync_goes_on_until_both_agree() -> None:
    frames: list[dict[str, Any]] = []

    async def script(peer: Peer, _: int) -> None:
        await peer.recv("hello")
        registered: list[str] = []
        await peer.send("welcome", session="s", app="demo", recipient="g:u", heartbeat="30s", digest=EMPTY_DIGEST)
        while True:
            ((kind, fields),) = json.loads(await peer.ws.recv()).items()
            if kind == "register":
                frames.append(fields)
                if len(frames) > 1:  # the first is lost
                    registered = fields["objects"]
                    await peer.send("registered", objects=registered, digest=digest_of(("g", n) for n in registered))
                    await peer.send("object", group="g", object="a", version="7", unknown=False)
            if kind == "ping":
                await peer.send("pong", digest=digest_of(("g", n) for n in registered))

    async with playing(script) as client:
        port = int(client._base.rpartition(":")[2])
        where = Connection(address="127.0.0.1", port=port, transport="websocket")
        notify = Notify(domain="demo", group_id="g", client_id="u", connection=where)
        notify.register("a")
        changed = await asyncio.to_thread(notify.sync, timeout=PATIENCE, quiet=0.1)
    assert [n.version for n in changed] == ["7"]
    assert frames[1:] == [{"objects": ["a"], "reset": True}]
    assert notify.status("a") is RegistrationStatus.REGISTERED
