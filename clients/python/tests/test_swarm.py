"""Many clients of a real server, disturbed at random, know in the end what is current."""

from __future__ import annotations

import asyncio
import contextlib
import random

import pytest

from godwit import AsyncClient, Objects, ObjectVersion
from serving import NewServer, Server, eventually

pytestmark = pytest.mark.anyio

GROUP = "swarm"
NAMES = [f"o{i}" for i in range(6)]


class Follower:
    """One client, which comes and goes. Odd ones use gRPC."""

    def __init__(self, server: Server, number: int) -> None:
        self.name = f"follower-{number}"
        self.client = AsyncClient(server.url, api_key="dev", grpc_address=server.grpc if number % 2 else None)
        self.wanted: set[str] = set()
        self.knows: dict[str, int] = {}
        self.objects = self._objects()
        self._task: asyncio.Task[None] | None = None

    def _objects(self) -> Objects:
        async def handle(v: ObjectVersion) -> None:
            assert v.version >= self.knows.get(v.object, 0)
            self.knows[v.object] = v.version

        return Objects(handle, group=GROUP)

    def want(self, name: str) -> None:
        if name not in self.wanted:
            self.wanted.add(name)
            self.knows.pop(name, None)
            self.objects.register(name)

    def drop(self, name: str) -> None:
        self.wanted.discard(name)
        self.objects.unregister(name)

    def come(self) -> None:
        if self._task is None:
            work = self.client.listen(self.name, device="d", objects=self.objects, heartbeat="5s")
            self._task = asyncio.create_task(work)

    async def go(self) -> None:
        if self._task is not None:
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None

    async def forget(self) -> None:
        """Restart without state."""
        await self.go()
        self.knows.clear()
        self.objects = self._objects()
        self.objects.register(*self.wanted)


async def test_all_know_what_is_current(new_server: NewServer) -> None:
    for seed in (1, 2):
        await disturb(new_server, seed)


async def disturb(new_server: NewServer, seed: int) -> None:
    dice = random.Random(seed)
    server = new_server()
    versions = dict.fromkeys(NAMES, 0)
    followers = [Follower(server, i) for i in range(12)]
    async with AsyncClient(server.url, api_key="dev", attempts=30) as backend, asyncio.timeout(120):
        for step in range(300):
            who = dice.choice(followers)
            match dice.randrange(9):
                case 0 | 1:
                    who.want(dice.choice(NAMES))
                case 2:
                    who.drop(dice.choice(NAMES))
                case 3 | 4:
                    who.come()
                case 5:
                    await who.go()
                case 6 if dice.random() < 0.3:
                    await who.forget()
                case 7 if dice.random() < 0.5:
                    await backend.disconnect(who.name)
                case _:
                    name = dice.choice(NAMES)
                    versions[name] += dice.randint(1, 3)
                    await backend.put_object(GROUP, name, version=versions[name])
            if step in (100, 200):
                server.kill()
                if step == 200:  # and all that it knew of objects is lost
                    server.lose("objects.db")
                await asyncio.to_thread(server.start)
                if step == 200:
                    for name, version in versions.items():
                        if version:
                            await backend.put_object(GROUP, name, version=version)
        for f in followers:
            f.come()

        async def current() -> bool:
            return all(
                {n: f.knows.get(n, 0) for n in f.wanted} == {n: versions[n] for n in f.wanted} for f in followers
            )

        await eventually(current, patience=60)

        async def registered() -> bool:
            for name in NAMES:
                found = {r.recipient for r in await backend.object_registrations(GROUP, name)}
                if found != {f.name for f in followers if name in f.wanted}:
                    return False
            return True

        await eventually(registered, patience=60)
        for f in followers:
            await f.go()
            await f.client.close()
