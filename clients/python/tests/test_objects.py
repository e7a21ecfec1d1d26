"""Objects, published and followed, against a real server."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import pytest

from godwit import AsyncClient, Client, Objects, ObjectVersion, ProblemError
from serving import PATIENCE, NewServer, Server, eventually
from test_listen import listening

pytestmark = pytest.mark.anyio


@pytest.fixture
def group(request: pytest.FixtureRequest) -> str:
    """A group of the test's own."""
    return str(request.node.name).translate({ord("["): ".", ord("]"): None})[-100:]


class Followed:
    """Objects with a handler that keeps what it gets."""

    def __init__(self, group: str, **options: Any) -> None:
        self.got: asyncio.Queue[ObjectVersion] = asyncio.Queue()
        self.objects = Objects(self.got.put, group=group, **options)

    async def next(self) -> tuple[str, int, bool]:
        v = await self.got.get()
        return v.object, v.version, v.unknown


async def test_versions_are_put_read_and_only_grow(client: AsyncClient, group: str) -> None:
    first = await client.put_object(group, "a", version=7, payload={"iso": 100})
    assert (first.version, first.changed) == (7, True)
    older = await client.put_object(group, "a", version="7", payload={"iso": 200})
    assert (older.version, older.changed) == (7, False)
    assert (await client.put_object(group, "a")).version == 8
    await client.put_object(group, "b", payload=[1])
    found = [o async for o in client.objects(group)]
    assert [(o.object, o.version, o.payload) for o in found] == [("a", 8, None), ("b", 1, [1])]
    assert [o.object async for o in client.objects(group, prefix="b")] == ["b"]
    await client.delete_object(group, "a")
    gone = await client.object(group, "a")
    assert (gone.group, gone.object, gone.version, gone.unknown) == (group, "a", 8, True)
    with pytest.raises(ProblemError) as caught:
        await client.object(group, "never")
    assert caught.value.status == 404
    with pytest.raises(ValueError, match="version"):
        await client.put_object(group, "a", version=0)
    with pytest.raises(ProblemError):
        await client.put_object(group, "a", payload="x" * 5000)


async def test_follower_learns_the_current_version_at_once_and_each_later_one(client: AsyncClient, group: str) -> None:
    await client.put_object(group, "a", version=7, payload={"iso": 100})
    f = Followed(group)
    f.objects.register("a", "never")
    async with listening(client, "follower", objects=f.objects, device="d"):
        first = sorted([await f.next(), await f.next()])
        assert first == [("a", 7, False), ("never", 0, True)]
        await client.put_object(group, "a", payload={"iso": 200})
        v = await f.got.get()
        assert (v.version, v.json(), v.group) == (8, {"iso": 200}, group)
        await client.put_object(group, "a", unknown=True)
        assert await f.next() == ("a", 8, True)

        async def acked() -> bool:
            (found,) = await client.object_registrations(group, "a")
            assert (found.recipient, found.device, found.online) == ("follower", "d", True)
            return (found.sent_version, found.acked_version) == (8, 8)

        await eventually(acked)
        f.objects.unregister("a")

        async def unregistered() -> bool:
            return await client.object_registrations(group, "a") == []

        await eventually(unregistered)
    assert set(f.objects.registrations) == {"never"}


async def test_one_that_was_away_learns_only_the_latest(client: AsyncClient, group: str) -> None:
    names = ["a", "b", "c"]
    f = Followed(group)
    f.objects.register(*names)
    async with listening(client, "away", objects=f.objects, device="d"):
        for _ in names:
            await f.next()
    for _ in range(50):
        for name in names:
            await client.put_object(group, name)
    async with listening(client, "away", objects=f.objects, device="d"):
        assert sorted([await f.next() for _ in names]) == [("a", 50, False), ("b", 50, False), ("c", 50, False)]
        await client.put_object(group, "a")
        assert await f.next() == ("a", 51, False)
    assert f.got.empty()


async def test_source_is_not_told_of_its_own_change(client: AsyncClient, group: str) -> None:
    f = Followed(group)
    f.objects.register("a", "b")
    async with listening(client, "writer", objects=f.objects, device="d"):
        await f.next()
        await f.next()
        await client.put_object(group, "a", source="writer/d")
        await client.put_object(group, "b", source="other")
        assert await f.next() == ("b", 1, False)
    assert f.got.empty()


async def test_handler_that_fails_gets_it_again(new_server: NewServer) -> None:
    tries: list[int] = []
    done = asyncio.Event()

    async def handle(v: ObjectVersion) -> None:
        if v.unknown:
            return
        tries.append(v.version)
        if len(tries) == 1:
            raise ValueError("no")
        done.set()

    objects = Objects(handle, group="g")
    objects.register("a")
    server = new_server()
    async with (
        AsyncClient(server.url, api_key="dev") as client,
        asyncio.timeout(PATIENCE),
        listening(client, "a", objects=objects, device="d"),
    ):
        await client.put_object("g", "a")
        await client.disconnect("a")  # the server sends it again at once on the next session, else after 10 s
        await done.wait()
    assert set(tries) == {1}


async def test_server_that_lost_everything_is_told_within_a_heartbeat(new_server: NewServer) -> None:
    server = new_server()
    f = Followed("g")
    f.objects.register("a", "b")
    async with (
        AsyncClient(server.url, api_key="dev", attempts=30) as client,
        asyncio.timeout(2 * PATIENCE),
        listening(client, "r", objects=f.objects, device="d", heartbeat="5s"),
    ):
        await client.put_object("g", "a", version=5)
        while await f.next() != ("a", 5, False):
            pass
        server.kill()
        server.lose("objects.db")
        await asyncio.to_thread(server.start)

        async def resynced() -> bool:
            return [r.online for r in await client.object_registrations("g", "a")] == [True]

        await eventually(resynced)
        await client.put_object("g", "a", version=6)
        while await f.next() != ("a", 6, False):
            pass


def test_blocking_client_follows_too(server: Server) -> None:
    got: queue.Queue[ObjectVersion] = queue.Queue()
    changes: list[str] = []
    with Client(server.url, api_key="dev") as client:
        client.put_object("blocking", "a", version=3, payload="x")
        objects = client.follow(got.put, group="blocking", on_change=lambda c: changes.append(str(c.status)))
        objects.register("a")
        with client.start_listening("blocking-follower", objects=objects):
            v = got.get(timeout=PATIENCE)
            assert (v.object, v.version, v.json()) == ("a", 3, "x")
            assert [r.recipient for r in client.object_registrations("blocking", "a")] == ["blocking-follower"]
            client.delete_object("blocking", "a")
            assert got.get(timeout=PATIENCE).unknown
        assert client.object("blocking", "a").unknown
        assert [o.object for o in client.objects("blocking")] == ["a"]
    assert changes[:2] == ["pending registration", "registered"]
