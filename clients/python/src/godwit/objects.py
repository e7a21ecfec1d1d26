"""Following objects within a session."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from .backoff import CONNECT_BASE, CONNECT_MOST, Backoff
from .errors import StateError
from .frames import ClientFrame, ObjectFrame, Pong, Registered, RegistrationFailed
from .registrations import Change, Keeper, Verdict
from .state import Registration, State

__all__ = ["ObjectHandler", "ObjectVersion", "Objects"]

log = logging.getLogger("godwit")

# How many seconds a handler is left alone after it failed on a version that the server does not send again.
_FAILED_PAUSE = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ObjectVersion:
    """An object is at a version, or nobody can say which is its latest."""

    group: str
    object: str
    version: int
    """Only grows. If unknown, the next known version is above it; 0: there never was one."""
    unknown: bool = False
    """Fetch the object from where it lives: its version is not known."""
    payload: bytes = b""
    content_type: str = ""

    def json(self) -> Any:
        """Return the payload as the JSON value it is; None where there is none."""
        return json.loads(self.payload) if self.payload else None


ObjectHandler = Callable[[ObjectVersion], Awaitable[bool | None]]
"""Handles a version. Returning acknowledges it; an exception, or False, leaves it to the server to send again."""


class Objects:
    """What a session follows. Give it to `listen`.

    Registrations last for the session; with `device` given to `listen` the server keeps them, and what changed while
    the device was away arrives when it is back: the latest version of each object that changed, not every one.
    Registering and unregistering work at any time and from any thread; both sides come to agree on their own.
    """

    def __init__(
        self,
        handle: ObjectHandler,
        *,
        group: str = "",
        state: State | None = None,
        owner: dict[str, str] | None = None,
        on_change: Callable[[Change], Awaitable[None] | None] | None = None,
    ) -> None:
        self._handle = handle
        self._state = state if state is not None else State(memory=True)
        self.keeper = Keeper(group, self._state.load(**(owner or {"group": group})))
        self._on_change = on_change
        self._waiting: dict[str, ObjectVersion] = {}  # the newest of each object, not handled yet
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer: asyncio.Event | None = None  # wakes the session's writer
        self._work = asyncio.Event()
        self._stopping = False
        self._busy = False
        self._retry = Backoff(CONNECT_BASE, CONNECT_MOST)
        self._retry_at: float | None = None
        self._postponed: dict[str, float] = {}  # until when the handler is left alone with an object it failed on
        self._watchers: set[asyncio.Event] = set()
        self._saving = threading.Lock()
        self._saved = self.keeper.revision
        self._probe = False
        self._pongs = 0
        self._activity = 0

    @property
    def group(self) -> str:
        """The namespace of the objects."""
        return self.keeper.group

    @property
    def digest(self) -> str:
        """The digest of what is wanted."""
        return self.keeper.digest

    @property
    def registrations(self) -> dict[str, Registration]:
        """All registrations by object."""
        return self.keeper.registrations()

    def _idle(self) -> bool:
        return self.keeper.connected and not (self._waiting or self._busy)

    @property
    def agreed(self) -> bool:
        """Whether the server is known to have exactly these registrations."""
        return self.keeper.agreed

    def register(self, *names: str) -> None:
        """Follow these objects. Their current versions arrive at once."""
        if self.keeper.register(names):
            self._changed()

    def unregister(self, *names: str) -> None:
        """No longer follow these objects."""
        if self.keeper.unregister(names):
            for name in names:
                self._waiting.pop(name, None)
                self._postponed.pop(name, None)
            self._changed()

    def nudge(self) -> None:
        """Offer versions that were not handled to the handler again. Safe to call from any thread."""
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):  # the loop has just been closed
                loop.call_soon_threadsafe(self._wake)

    def _changed(self) -> None:
        if self._loop is None:
            self._save()
        else:
            self.nudge()

    def _wake(self) -> None:
        self._work.set()
        if self._writer is not None:
            self._writer.set()

    def _save(self) -> None:
        with self._saving:  # of two at once the later one has the newer registrations
            revision = self.keeper.revision
            if revision == self._saved:
                return
            try:
                self._state.save(self.keeper.registrations())
                self._saved = revision
            except StateError as e:
                log.warning("registrations not saved", extra={"reason": str(e)})

    # For the listener and its session.

    def attach(self) -> None:
        """Begin to work on the running loop."""
        if self._loop is not None:
            raise RuntimeError("these objects are followed by another call of listen")
        self._loop = asyncio.get_running_loop()
        self._work, self._stopping = asyncio.Event(), False
        self._work.set()

    async def detach(self) -> None:
        """End it, with what the last frames have brought."""
        self._loop = None
        await self._tell_changes()
        await self._keep()

    def stop(self) -> None:
        """Let `work` return after the version that is being handled."""
        self._stopping = True
        self._work.set()

    def connected(self, digest: str, writer: asyncio.Event) -> None:
        """Take the server's summary."""
        self._writer = writer
        self._waiting.clear()  # the server sends again what it has no acknowledgement of
        self._postponed.clear()
        self.keeper.welcomed(digest)
        self._retry.reset()
        self._retry_at = None
        self._happened()

    def disconnected(self) -> None:
        """Note that the session ended."""
        self._writer = None
        self.keeper.disconnected()
        self._happened()

    def ping(self) -> str:
        """Return the digest for a ping."""
        self._probe = False
        return self.keeper.ping_digest()

    @property
    def probing(self) -> bool:
        """Whether a ping is wanted now."""
        return self._probe

    def due_in(self) -> float:
        """Return in how many seconds there is something to do."""
        if not self.keeper.delayed or self._loop is None:
            return float("inf")
        now = self._loop.time()
        if self._retry_at is None:
            self._retry_at = now + self._retry.next()
        return max(self._retry_at - now, 0.0)

    def received(self, frame: ObjectFrame | Registered | RegistrationFailed | Pong) -> None:
        """Take a frame of the server."""
        match frame:
            case ObjectFrame():
                self._object(frame)
            case Registered():
                self.keeper.registered(frame)
            case RegistrationFailed():
                self.keeper.failed(frame)
            case Pong():
                self._pongs += 1
                self.keeper.ponged(frame.digest)
        if not isinstance(frame, Pong):
            self._activity += 1
        self._happened()

    def _happened(self) -> None:
        self._wake()
        for watcher in self._watchers:
            watcher.set()

    def _object(self, frame: ObjectFrame) -> None:
        if self.keeper.received(frame) is not Verdict.DELIVER:
            return
        waiting = self._waiting.get(frame.object)
        if waiting is not None and not frame.unknown and frame.version <= waiting.version:
            return
        entry = self.keeper.get(frame.object)
        floor = max(entry.version if entry else 0, waiting.version if waiting else 0)
        self._waiting[frame.object] = ObjectVersion(
            group=frame.group or self.group,
            object=frame.object,
            version=max(frame.version, floor),
            unknown=frame.unknown,
            payload=frame.payload,
            content_type=frame.content_type,
        )

    async def take(self) -> list[ClientFrame]:
        """Return the frames to send now. What they say is saved before they leave."""
        if self._retry_at is not None and self.due_in() == 0.0:
            self._retry_at = None
            self.keeper.retry()
        frames = self.keeper.take()
        if frames:
            await self._keep()
        return frames

    async def _keep(self) -> None:
        if self.keeper.revision != self._saved:
            await asyncio.to_thread(self._save)

    async def work(self) -> None:
        """Hand versions to the handler, one at a time, until `stop`."""
        while True:
            await self._work.wait()
            self._work.clear()
            await self._tell_changes()
            if self._writer is None:
                await self._keep()  # else the writer does it, with what it sends
            for name in list(self._waiting):
                if self._stopping:
                    break
                await self._deliver(name)
            if self._stopping:
                await self._tell_changes()
                return

    async def _deliver(self, name: str) -> None:
        version = self._waiting.get(name)
        if version is None or self._postponed.get(name, 0.0) > asyncio.get_running_loop().time():
            return
        self._busy = True
        try:
            done = await self._handle(version) is not False
        except asyncio.CancelledError:
            raise
        except Exception:
            log.exception("object handler failed", extra={"object": name})
            self._failed(version)
            return
        finally:
            self._busy = False
        if not done:
            return  # nobody is there for it yet: it waits for a nudge
        self._forget(version)
        self.keeper.handled(name, version.version, version.unknown)
        self._happened()

    def _failed(self, version: ObjectVersion) -> None:
        if not version.unknown:
            self._forget(version)  # the server sends it again
            return
        # It says only once in a session that a version is unknown.
        loop = asyncio.get_running_loop()
        self._postponed[version.object] = loop.time() + _FAILED_PAUSE
        loop.call_later(_FAILED_PAUSE, self._wake)

    def _forget(self, version: ObjectVersion) -> None:
        """Drop a version unless a newer one took its place meanwhile."""
        if self._waiting.get(version.object) is version:
            del self._waiting[version.object]

    async def _tell_changes(self) -> None:
        changes = self.keeper.take_changes()
        if changes:
            await self._keep()  # nothing may be left to send, so that nothing else would keep a confirmation
        for change in changes:
            if self._on_change is None:
                continue
            try:
                result = self._on_change(change)
                if inspect.isawaitable(result):
                    await result
            except Exception:
                log.exception("callback failed")

    async def until_agreed(self) -> None:
        """Return once the server has confirmed all registrations, or the session has ended."""
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            while self.keeper.connected and not self.agreed:
                watcher.clear()
                await watcher.wait()
        finally:
            self._watchers.discard(watcher)

    async def reconcile(self, quiet: float) -> None:
        """Return once server and client agree and all that came was handled.

        The server does not say when it has sent all that changed. So this waits until nothing has come for `quiet`
        seconds, then for the answer to a ping, before which the server's frames have arrived.
        """
        watcher = asyncio.Event()
        self._watchers.add(watcher)
        try:
            while True:
                watcher.clear()
                before = self._activity
                if not await _silent(watcher, quiet) or not self._idle():
                    continue
                await self._ping_and_wait(watcher)
                if self.agreed and self._idle() and self._activity == before:
                    return
        finally:
            self._watchers.discard(watcher)

    async def _ping_and_wait(self, watcher: asyncio.Event) -> None:
        pongs = self._pongs
        self._probe = True
        self._wake()
        while self._pongs == pongs and self.keeper.connected:
            watcher.clear()
            await watcher.wait()


async def _silent(watcher: asyncio.Event, patience: float) -> bool:
    """Wait for an event and report that it did not come."""
    try:
        async with asyncio.timeout(patience):
            await watcher.wait()
    except TimeoutError:
        return True
    return False
