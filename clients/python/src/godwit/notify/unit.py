"""An observation unit."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import random
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

from ..errors import GodwitError, RefusedError, RegistrationError, SyncTimeoutError
from ..extras import needs
from ..frames import Welcome
from ..listener import Listener, ListenOptions
from ..objects import Objects, ObjectVersion
from ..portal import Portal
from ..registrations import Change
from ..state import Registration, RegistrationStatus, State
from ..token import TokenSource
from ..values import Duration, check_name, seconds
from .connection import Connection
from .feed import Feed, Notification

try:
    import reactivex
    from reactivex.subject import Subject
except ImportError as e:
    raise needs("notify", "godwit.notify", e) from e

__all__ = ["Notify"]

log = logging.getLogger("godwit")

# The device name under which the server keeps this interface's registrations.
_DEVICE = "unit"

# How many seconds to wait after a refusal: nobody may be there to start the unit again, and it may be mended.
_REFUSED_LEAST, _REFUSED_MOST = 60.0, 300.0

# A sync ends after so many seconds without news.
_QUIET = 1.0


class Notify:
    """Keeps a unit up to date with the objects it follows.

    domain: the app. group_id: the group, which is the namespace of its objects. client_id: the unit in its group.
    state: where registrations are kept; in memory unless given. connection: where the server is.

    Its methods may be called from any thread. Subscribers run one after the other in a thread of their own; a version
    is acknowledged when all its subscribers have returned, and comes again, to all, if one raised. Until somebody
    subscribes, an object's version waits.
    """

    def __init__(
        self,
        *,
        domain: str,
        group_id: str,
        client_id: str,
        state: State | None = None,
        connection: Connection | None = None,
    ) -> None:
        for what, name in (("domain", domain), ("group_id", group_id), ("client_id", client_id)):
            if ":" in check_name(what, name):
                raise ValueError(f"{what} {name!r} contains a colon")
        self.domain = domain
        self.group_id = group_id
        self.client_id = client_id
        self.recipient = check_name("group_id:client_id", f"{group_id}:{client_id}")
        self._connection = connection or Connection()
        owner = {"app": domain, "recipient": self.recipient, "group": group_id, "device": _DEVICE}
        self._objects = Objects(
            self._handle, group=group_id, state=state, owner=owner, on_change=self._registration_changed
        )
        self._feeds: dict[str, Feed] = {}
        self._changes: Subject[Change] = Subject()
        self._lock = threading.RLock()
        self._portal: Portal | None = None
        self._run: concurrent.futures.Future[None] | None = None
        self._listener: Listener | None = None
        self._stopped = asyncio.Event()
        self._answered = threading.Event()  # the server has let this unit in, or refused it
        self._subscribers_thread = 0
        self._error: GodwitError | None = None
        self._threads: ThreadPoolExecutor | None = None
        self._collected: list[Notification] | None = None

    # Followed objects.

    def register(self, name: str) -> reactivex.Observable[Notification]:
        """Follow an object, and return the observable of its versions.

        The current one comes at once, unless this unit has handled it before and knows so from its state. The
        observable completes with `unregister`, and ends with a RegistrationError if the server refuses for good.
        """
        check_name("object", name)
        with self._lock:
            feed = self._feeds.get(name)
            if feed is None:
                feed = self._feeds[name] = Feed(self._objects.nudge)
        self._objects.register(name)
        return feed.observable

    def unregister(self, name: str) -> None:
        """No longer follow an object."""
        with self._lock:
            feed = self._feeds.pop(name, None)
        self._objects.unregister(name)
        if feed is not None:
            feed.end()

    @property
    def registrations(self) -> dict[str, Registration]:
        """All registrations by object: how far each is, and the newest version that was handled."""
        return self._objects.registrations

    def status(self, name: str) -> RegistrationStatus | None:
        """Return how far the registration for an object is; None: there is none."""
        entry = self._objects.keeper.get(name)
        return None if entry is None else entry.status

    @property
    def changes(self) -> reactivex.Observable[Change]:
        """What happens to registrations: another status, or a failure."""
        return self._changes

    # Connecting.

    @property
    def connected(self) -> bool:
        """Whether there is a session."""
        return self._objects.keeper.connected

    @property
    def error(self) -> GodwitError | None:
        """Why there is no session, as far as is known."""
        return None if self.connected else self._error

    def connect(self, timeout: Duration | None = None) -> None:
        """Start to work, and stay connected until `disconnect`: connections that fail or end are made again.

        It returns at once, or with a timeout when there is a session; without one in time it raises TimeoutError, or
        RefusedError if the server refuses, and goes on trying. Certificates that cannot be read are an OSError.
        """
        with self._lock:
            if self._portal is None:
                self._connection.check()
                self._start(self._stay)
        if timeout is None:
            return
        if not self._answered.wait(seconds(timeout)):
            raise TimeoutError(f"no session in {seconds(timeout):g} s: {self._error or 'the server did not answer'}")
        if isinstance(self._error, RefusedError):
            raise self._error

    def disconnect(self) -> None:
        """Send what is to be sent, and end the session and the thread.

        A subscriber that runs is waited for. Called by a subscriber, it returns at once.
        """
        with self._lock:
            portal, run, threads = self._portal, self._run, self._threads
            self._portal = self._run = None
        if portal is None or run is None or threads is None:
            return
        portal.submit(self._stop()).result()
        if threading.get_ident() == self._subscribers_thread:
            threading.Thread(target=_finish, args=(portal, run, threads), name="godwit end").start()
        else:
            _finish(portal, run, threads)

    def sync(self, timeout: Duration = 60.0, *, quiet: Duration = _QUIET) -> list[Notification]:
        """Connect, learn what changed, acknowledge it, disconnect; for units that wake, reconcile and sleep.

        It returns what changed, which subscribers have handled, too. An object that nobody subscribed to counts as
        handled by whoever called. The set of registrations counts as complete: the server forgets others.

        quiet: how long nothing may come before it counts as all. If it is not complete in time, SyncTimeoutError says
        what changed until then; a server that refuses is a RefusedError. If the unit is connected, it stays so.
        """
        patience, silence = seconds(timeout), seconds(quiet)
        self._objects.keeper.settle()
        with self._lock:
            standing = self._portal
            if standing is None:
                self._connection.check()
                self._start(self._once)
            portal = self._portal
            if portal is None or self._collected is not None:
                raise RuntimeError("another sync is running")
            collected = self._collected = []
        self._objects.nudge()
        try:
            portal.call(self._reconcile(patience, silence))
        except TimeoutError as e:
            raise SyncTimeoutError(f"not reconciled in {patience:g} s: {self._error or e}", collected) from e
        finally:
            self._collected = None
            if standing is None:
                self.disconnect()
        return collected

    def __enter__(self) -> Self:
        self.connect()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.disconnect()

    # In the thread.

    def _start(self, run: Callable[[], Any]) -> None:
        self._answered.clear()
        self._error = None
        self._stopped = asyncio.Event()
        self._threads = ThreadPoolExecutor(1, "godwit subscribers", self._in_subscribers_thread)
        self._portal = Portal("godwit notify")
        self._run = self._portal.submit(run())

    def _in_subscribers_thread(self) -> None:
        self._subscribers_thread = threading.get_ident()

    async def _stop(self) -> None:
        self._stopped.set()
        if self._listener is not None:
            self._listener.stop()

    async def _once(self) -> None:
        token = self._connection.token
        source: TokenSource | None = (lambda: token) if isinstance(token, str) else token
        options = ListenOptions(
            device=_DEVICE,
            window=1,  # notifications of the mailbox are not for this interface
            heartbeat=self._connection.heartbeat,
            objects=self._objects,
            on_connect=self._connected,
            on_disconnect=self._disconnected,
        )
        self._listener = Listener(self._connection.dial, self.recipient, None, options, app=self.domain, token=source)
        try:
            if not self._stopped.is_set():
                await self._listener.run()
        finally:
            self._listener = None

    async def _stay(self) -> None:
        """Listen until `disconnect`, through refusals, too."""
        while not self._stopped.is_set():
            try:
                await self._once()
            except RefusedError as e:
                self._error = e
                self._answered.set()
                if e.reason == "replaced":
                    log.error("another program took over this unit's session", extra={"unit": self.recipient})
                    return
                pause = random.uniform(_REFUSED_LEAST, _REFUSED_MOST)
                log.error(
                    "server refused this unit", extra={"unit": self.recipient, "reason": str(e), "again_in": pause}
                )
                try:
                    async with asyncio.timeout(pause):
                        await self._stopped.wait()
                except TimeoutError:
                    pass

    async def _reconcile(self, timeout: float, quiet: float) -> None:
        """Reconcile, or raise why it cannot be."""
        work = asyncio.create_task(self._objects.reconcile(quiet))
        waits: set[asyncio.Future[Any]] = {work}
        if self._run is not None:
            waits.add(asyncio.wrap_future(self._run))
        try:
            async with asyncio.timeout(timeout):
                done, _ = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()
            if work not in done:
                raise self._error or GodwitError("disconnected before it was reconciled")
        finally:
            work.cancel()

    def _connected(self, _: Welcome) -> None:
        self._error = None
        self._answered.set()

    def _disconnected(self, error: GodwitError, _: float) -> None:
        self._error = error
        self._answered.clear()

    async def _handle(self, v: ObjectVersion) -> bool:
        n = Notification.of(v)
        feed, collected = self._feeds.get(v.object), self._collected
        if feed is not None and feed.watched:
            assert self._threads is not None
            if not await asyncio.get_running_loop().run_in_executor(self._threads, feed.publish, n):
                raise GodwitError(f"a subscriber of {v.object} failed")
        elif collected is None:
            return False
        if collected is not None:
            collected.append(n)
        return True

    async def _registration_changed(self, change: Change) -> None:
        assert self._threads is not None
        await asyncio.get_running_loop().run_in_executor(self._threads, self._tell, change)

    def _tell(self, change: Change) -> None:
        if change.status is None and change.code:
            with self._lock:
                feed = self._feeds.pop(change.object, None)
            if feed is not None:
                feed.end(RegistrationError(change.object, change.code))
        self._changes.on_next(change)


def _finish(portal: Portal, run: concurrent.futures.Future[None], threads: ThreadPoolExecutor) -> None:
    concurrent.futures.wait([run])
    portal.close()
    threads.shutdown()
