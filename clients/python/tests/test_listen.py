"""Listening against a real server, over WebSocket and over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from godwit import (
    Action,
    AsyncClient,
    GodwitError,
    InboxNews,
    InboxState,
    NackAfter,
    Notification,
    RefusedError,
    Welcome,
)
from godwit.listener import ListenOptions
from serving import PATIENCE, NewServer, Server, eventually, options

pytestmark = pytest.mark.anyio


@pytest.fixture
def who(request: pytest.FixtureRequest) -> str:
    """A recipient of the test's own."""
    return str(request.node.name).translate({ord("["): ".", ord("]"): None})[-100:]


@contextlib.asynccontextmanager
async def listening(client: AsyncClient, *args: Any, **kwargs: Any) -> AsyncIterator[asyncio.Task[None]]:
    """Listen in the background, connected, and end by cancelling."""
    connected = asyncio.Event()
    told = kwargs.pop("on_connect", None)

    def on_connect(welcome: Welcome) -> None:
        connected.set()
        if told:
            told(welcome)

    task = asyncio.create_task(client.listen(*args, on_connect=on_connect, **kwargs))
    ready = asyncio.create_task(connected.wait())
    await asyncio.wait([task, ready], return_when=asyncio.FIRST_COMPLETED)
    ready.cancel()
    try:
        yield task
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError, RefusedError):
            await task


async def test_notification_arrives_whole_and_is_acknowledged(client: AsyncClient, who: str) -> None:
    got: asyncio.Queue[Notification] = asyncio.Queue()
    ride = {"title": "New ride", "body": "2.1 km", "category": "NEW_RIDE", "data": {"fare": 120}}
    text = "two\nlines ☂".encode()
    blob = bytes([0, 255, 128, 10])
    published: list[tuple[str, dict[str, Any], bytes, str]] = [
        ("json", ride, b'{"fare":120}', "application/json"),
        ("text", {"data": text}, text, "text/plain; charset=utf-8"),
        ("bytes", {"data": blob}, blob, "application/octet-stream"),
        ("typed", {"data": "<p>", "content_type": "text/html"}, b"<p>", "text/html"),
        ("high", {"priority": "high", "title": "Hi"}, b"", ""),
    ]
    async with listening(client, who, got.put):
        for name, fields, data, content_type in published:
            receipt = await client.publish(who, id=name, **fields)
            n = await got.get()
            assert (n.id, n.title, n.body, n.category) == (
                name,
                fields.get("title", ""),
                fields.get("body", ""),
                fields.get("category", ""),
            )
            assert (n.data, n.content_type, n.attempt) == (data, content_type, 1)
            assert n.priority == fields.get("priority", "normal")
            assert n.expires_at == receipt.expires_at
            assert (await client.wait(name, who)).status == "acked"


async def test_what_waited_arrives_in_order(client: AsyncClient, who: str) -> None:
    for i in range(100):  # more than a window
        await client.publish(who, id=f"n{i}", title="Hi")
    got: list[str] = []
    done = asyncio.Event()

    async def handle(n: Notification) -> None:
        got.append(n.id)
        if len(got) == 100:
            done.set()

    async with listening(client, who, handle, window=8):
        await done.wait()
    assert got == [f"n{i}" for i in range(100)]

    async def settled() -> bool:  # the last acknowledgements went out before listen ended
        return (await client.recipient(who)).pending == 0

    await eventually(settled)


async def test_handler_that_fails_gets_it_again_and_one_that_asks_when_it_said(client: AsyncClient, who: str) -> None:
    attempts: dict[str, list[int]] = {"fails": [], "later": []}
    asked: list[float] = []
    done = asyncio.Event()

    async def handle(n: Notification) -> None:
        attempts[n.id].append(n.attempt)
        if n.id == "later":
            asked.append(asyncio.get_running_loop().time())
            if n.attempt == 1:
                raise NackAfter(0.5, "busy")
        elif n.attempt == 1:
            raise NackAfter(0)
        if all(len(a) > 1 for a in attempts.values()):
            done.set()

    async with listening(client, who, handle):
        await client.publish(who, id="later", title="Hi")
        await client.publish(who, id="fails", title="Hi")
        await done.wait()
    assert attempts == {"fails": [1, 2], "later": [1, 2]}
    assert 0.3 <= asked[1] - asked[0] < 5


async def test_handler_that_raises_leaves_it_unsettled(client: AsyncClient, who: str) -> None:
    raised = asyncio.Event()

    async def handle(n: Notification) -> None:
        raised.set()
        raise ValueError("no")

    async with listening(client, who, handle):
        await client.publish(who, id="x", title="Hi")
        await raised.wait()
    assert (await client.recipient(who)).pending == 1


async def test_recall_takes_it_back(client: AsyncClient, who: str) -> None:
    handled: list[str] = []
    recalled: asyncio.Queue[Sequence[str]] = asyncio.Queue()
    started, go_on = asyncio.Event(), asyncio.Event()

    async def handle(n: Notification) -> None:
        handled.append(n.id)
        started.set()
        await go_on.wait()

    async with listening(client, who, handle, on_recall=recalled.put):
        await client.publish(who, id="first", title="Hi")
        await client.publish(who, id="second", title="Hi")
        await started.wait()
        assert await client.recall("second", who) == 1
        assert await recalled.get() == ("second",)
        go_on.set()
        assert (await client.wait("first", who)).status == "acked"
    assert handled == ["first"]  # the second was recalled while it waited its turn
    assert (await client.status("second", who)).status == "recalled"


async def test_held_ids_that_were_settled_meanwhile_are_recalled(client: AsyncClient, who: str) -> None:
    await client.publish(who, id="shown", title="Hi")
    await client.publish(who, id="settled", title="Hi")
    await client.acknowledge(who, ["settled"])
    recalled: asyncio.Queue[Sequence[str]] = asyncio.Queue()
    async with listening(client, who, None, held=lambda: ["shown", "settled"], on_recall=recalled.put):
        assert await recalled.get() == ("settled",)


async def test_acknowledgements_that_wait_leave_when_listening_ends(client: AsyncClient, who: str) -> None:
    names = [f"n{i}" for i in range(5)]
    for name in names:
        await client.publish(who, id=name, title="Hi")
    handled: list[str] = []

    async def handle(n: Notification) -> None:
        handled.append(n.id)
        if n.id == names[-1]:
            listener.stop()

    listener = client.listener(who, handle, ListenOptions(ack_delay="1s"))
    await listener.run()
    assert handled == names
    assert {(await client.wait(name, who)).status for name in names} == {"acked"}


async def test_two_handlers_at_once(client: AsyncClient, who: str) -> None:
    both = asyncio.Barrier(2)

    async def handle(_: Notification) -> None:
        await both.wait()  # passes only if two are there

    async with listening(client, who, handle, concurrency=2):
        await client.publish(who, id="a", title="Hi")
        await client.publish(who, id="b", title="Hi")
        assert (await client.wait("a", who)).status == "acked"
        assert (await client.wait("b", who)).status == "acked"


async def test_second_session_of_a_device_replaces_the_first(client: AsyncClient, who: str) -> None:
    async def handle(_: Notification) -> None: ...

    async with (
        listening(client, who, handle, device="phone") as first,
        listening(client, who, handle, device="phone"),
    ):
        with pytest.raises(RefusedError) as caught:
            await asyncio.shield(first)
        assert caught.value.reason == "replaced"
        assert [s.device for s in (await client.recipient(who)).sessions] == ["phone"]


async def test_disconnected_listener_is_back_and_handles_nothing_twice(client: AsyncClient, who: str) -> None:
    handled: list[str] = []
    welcomes: asyncio.Queue[Welcome] = asyncio.Queue()
    ends: list[tuple[GodwitError, float]] = []

    async def handle(n: Notification) -> None:
        handled.append(n.id)

    async with listening(
        client,
        who,
        handle,
        on_connect=welcomes.put_nowait,
        on_disconnect=lambda error, delay: ends.append((error, delay)),
    ):
        first = await welcomes.get()
        await client.publish(who, id="one", title="Hi")
        await client.wait("one", who)
        assert await client.disconnect(who) == 1
        second = await welcomes.get()
        await client.publish(who, id="two", title="Hi")
        await client.wait("two", who)
    assert first.session != second.session
    assert handled == ["one", "two"]
    assert len(ends) == 1
    assert "goodbye" in str(ends[0][0])


@pytest.mark.parametrize("transport", ["websocket", "grpc"])
async def test_listener_survives_the_server_being_killed(new_server: NewServer, transport: str) -> None:
    server = new_server()
    handled: list[str] = []
    acked = asyncio.Event()

    async def handle(n: Notification) -> None:
        handled.append(n.id)
        if n.id == "last":
            acked.set()

    async with (
        asyncio.timeout(2 * PATIENCE),
        AsyncClient(server.url, api_key="dev", attempts=30, **options(server, transport)) as client,
        listening(client, "a", handle, device="d"),
    ):
        for i in range(2):
            await client.publish("a", id=f"before-{i}", title="Hi")
            await client.wait(f"before-{i}", "a")
            server.kill()
            await asyncio.to_thread(server.start)
            await client.publish("a", id=f"after-{i}", title="Hi")
        await client.publish("a", id="last", title="Hi")
        await acked.wait()
    assert len(handled) == len(set(handled)) == 5


async def test_refusal_ends_listening(server: Server) -> None:
    async with AsyncClient(server.url, token="not.a.token") as client, asyncio.timeout(PATIENCE):
        with pytest.raises(RefusedError) as caught:
            await client.listen("driver-42")
        assert caught.value.reason == "unauthenticated"
    async with AsyncClient(server.url, app="nobody", grpc_address=server.grpc) as client, asyncio.timeout(PATIENCE):
        with pytest.raises(RefusedError):
            await client.listen("driver-42")


@pytest.mark.parametrize("transport", ["websocket", "grpc"])
async def test_token_says_who_listens_and_is_renewed(server: Server, transport: str) -> None:
    asked: list[str] = []
    who = f"token-{transport}"

    def token() -> str:
        asked.append(server.run("token", "--recipient", who, "--ttl", "4s").strip())
        return asked[-1]

    got: asyncio.Queue[Notification] = asyncio.Queue()
    async with (
        asyncio.timeout(PATIENCE),
        AsyncClient(server.url, api_key="dev") as backend,
        AsyncClient(server.url, token=token, **options(server, transport)) as client,
        listening(client, who, got.put) as task,
    ):
        await asyncio.sleep(4.5)  # longer than the first token lives
        await backend.publish(who, id="late", title="Hi")
        assert (await got.get()).id == "late"
        assert not task.done()
        sessions = (await backend.recipient(who)).sessions
    assert len(asked) >= 2
    assert len(sessions) == 1
    assert sessions[0].connected_at is not None


async def test_peek_observes_and_settles_nothing(client: AsyncClient, who: str) -> None:
    seen: asyncio.Queue[Notification] = asyncio.Queue()
    async with listening(client, who, seen.put, peek=True):
        await client.publish(who, id="x", title="Hi")
        assert (await seen.get()).id == "x"
    assert (await client.recipient(who)).pending == 1


async def test_an_observer_of_an_inbox_settles_nothing_and_learns_what_is_marked(client: AsyncClient, who: str) -> None:
    seen: asyncio.Queue[Notification] = asyncio.Queue()
    news: asyncio.Queue[InboxNews] = asyncio.Queue()
    async with listening(client, who, seen.put, observe=True, on_inbox=news.put):
        await client.publish(who, id="ask", title="Hi", inbox=True, actions=[Action("ok", "OK")])
        assert (await seen.get()).id == "ask"
        assert (await news.get()).unseen == 1
        assert (await client.recipient(who)).pending == 1
        item = await client.mark_inbox(who, "ask", answered="ok")
        assert (item.answered, item.answered_at) == ("ok", item.read_at)
        told = await news.get()
        assert told.marked == (InboxState(id="ask", seen=True, read=True, answered="ok"),)
    assert (await client.recipient(who)).pending == 0


async def test_options_that_make_no_sense_are_refused(server: Server) -> None:
    async with AsyncClient(server.url) as client:
        for wrong in ({"window": 2000}, {"concurrency": 0}, {"peek": True}, {"ack_delay": 1.1}, {"ack_delay": -1}):
            with pytest.raises(ValueError, match=next(iter(wrong))):
                await client.listen("a", **wrong)
