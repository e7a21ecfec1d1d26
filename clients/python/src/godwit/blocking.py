"""The blocking client: the asyncio one in a thread of its own."""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import ssl
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypedDict, TypeVar, Unpack, overload

from .backend import ANSWER_TIMEOUT
from .blockingaudience import Campaign, Channels, Endpoints
from .campaigns import CampaignFields
from .client import AsyncClient
from .errors import GodwitError
from .frames import InboxNews, Notification, Reply, Welcome
from .inbox import InboxCounts, InboxItem, InboxPage
from .listener import Listener, ListenOptions
from .objects import Objects, ObjectVersion
from .outbox import ACK_DELAY
from .portal import Portal
from .publication import Publication, PublicationFields
from .registrations import Change
from .results import Event, ObjectRegistration, ObjectValue, Preferences, Receipt, Recipient, Response, Status
from .state import State
from .token import Token, TokenSource
from .topics import Topics
from .values import Duration, seconds
from .workers import Workers

if TYPE_CHECKING:
    import grpc

__all__ = ["Client", "Listening"]

T = TypeVar("T")

BlockingHandler = Callable[[Notification], Reply | None]
"""Handles one notification. Returning acknowledges it, and a Reply answers it; an exception asks for redelivery
(NackAfter says when)."""


class ListenFields(TypedDict, total=False):
    """What `listen` takes by name; AsyncClient.listen explains each."""

    device: str
    group: str
    window: int
    heartbeat: Duration
    ack_delay: Duration
    concurrency: int
    peek: bool
    observe: bool
    objects: Objects | None
    topics: Topics | None
    workers: Workers | None
    held: Callable[[], Sequence[str]] | None
    on_recall: Callable[[Sequence[str]], None] | None
    on_inbox: Callable[[InboxNews], None] | None
    on_connect: Callable[[Welcome], None] | None
    on_disconnect: Callable[[GodwitError, float], None] | None
    on_error: Callable[[GodwitError], None] | None


class Listening:
    """A recipient's notifications being received in the background. Use it as a context manager, or call `stop`."""

    def __init__(self, portal: Portal, listener: Listener, future: concurrent.futures.Future[None]) -> None:
        self._portal = portal
        self._listener = listener
        self._future = future

    @property
    def running(self) -> bool:
        """Whether it has neither been stopped nor refused."""
        return not self._future.done()

    def stop(self, timeout: float | None = None) -> None:
        """End gently: handlers that run finish and their acknowledgements go out.

        Raises RefusedError if the server had refused the client, and TimeoutError if it takes longer than so many
        seconds; then it goes on ending.
        """
        self._portal.submit(self._stop()).result()
        self.wait(timeout)

    async def _stop(self) -> None:
        self._listener.stop()

    def wait(self, timeout: float | None = None) -> None:
        """Wait until it has ended. Raises RefusedError if the server refused, TimeoutError as `stop` does."""
        self._future.result(timeout)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
            return
        with suppress(GodwitError):  # what is on its way says more
            self.stop()

    def when_done(self, callback: Callable[[Listening], None]) -> None:
        """Call back, in any thread, when it has ended."""
        self._future.add_done_callback(lambda _: callback(self))


class Client:
    """Talks to one server, or to a cluster behind one address, and blocks until it has answered.

    It does what AsyncClient does, whose parameters it takes, and may be used by several threads at once. Use it as a
    context manager, or call `close` in the end.
    """

    def __init__(
        self,
        server: str,
        *,
        api_key: str = "",
        token: str | TokenSource | None = None,
        app: str = "",
        tls: ssl.SSLContext | None = None,
        grpc_address: str | None = None,
        grpc_credentials: grpc.ChannelCredentials | None = None,
        grpc_options: Sequence[tuple[str, Any]] = (),
        rpc: bool = False,
        attempts: int = 6,
        timeout: Duration = 30.0,
    ) -> None:
        self._async = AsyncClient(
            server,
            api_key=api_key,
            token=_token_source(token),
            app=app,
            tls=tls,
            grpc_address=grpc_address,
            grpc_credentials=grpc_credentials,
            grpc_options=grpc_options,
            rpc=rpc,
            attempts=attempts,
            timeout=timeout,
        )
        self._portal = Portal("godwit client")
        self._listening: set[Listening] = set()

    def close(self) -> None:
        """End what listens, gently, and close all connections."""
        for listening in list(self._listening):
            with suppress(GodwitError, concurrent.futures.CancelledError):  # who waits for it is told
                listening.stop()
        self._portal.close(self._async.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # Publishing.

    @overload
    def publish(  # type: ignore[overload-overlap]
        self, to: str, /, *, idempotency_key: str = "", traceparent: str = "", **fields: Unpack[PublicationFields]
    ) -> Receipt: ...

    @overload
    def publish(
        self,
        to: Sequence[str],
        /,
        *,
        idempotency_key: str = "",
        traceparent: str = "",
        **fields: Unpack[PublicationFields],
    ) -> list[Receipt]: ...

    def publish(
        self,
        to: str | Sequence[str],
        /,
        *,
        idempotency_key: str = "",
        traceparent: str = "",
        **fields: Unpack[PublicationFields],
    ) -> Receipt | list[Receipt]:
        """Store a notification for one recipient or a list; see AsyncClient.publish."""
        return self._portal.call(
            self._async.publish(to, idempotency_key=idempotency_key, traceparent=traceparent, **fields)
        )

    def publish_batch(self, publications: Iterable[Publication]) -> list[Receipt]:
        """Store any number of notifications; see AsyncClient.publish_batch."""
        return self._portal.call(self._async.publish_batch(publications))

    def notify(
        self,
        recipient: str,
        text: str,
        /,
        *,
        title: str = "",
        ttl: Duration | None = None,
        id: str = "",  # noqa: A002
    ) -> Receipt:
        """Store a line of text as a notification."""
        return self._portal.call(self._async.notify(recipient, text, title=title, ttl=ttl, id=id))

    def recall(self, id: str, to: str | None = None) -> int:  # noqa: A002
        """Withdraw a notification from a recipient, or from all, and return how many copies were withdrawn."""
        return self._portal.call(self._async.recall(id, to))

    def publish_message(self, topic: str, data: Any = None, *, content_type: str = "") -> None:
        """Hand a message to whoever subscribes to a topic now; see AsyncClient.publish_message."""
        self._portal.call(self._async.publish_message(topic, data, content_type=content_type))

    def request(
        self, subject: str, data: Any = None, *, content_type: str = "", timeout: Duration = ANSWER_TIMEOUT
    ) -> Response:
        """Ask one of those who serve a subject, and return the answer, whatever its status; see AsyncClient.request."""
        return self._portal.call(self._async.request(subject, data, content_type=content_type, timeout=timeout))

    def request_recipient(
        self,
        recipient: str,
        data: Any = None,
        *,
        device: str = "",
        subject: str = "",
        content_type: str = "",
        timeout: Duration = ANSWER_TIMEOUT,
    ) -> Response:
        """Ask a session of a recipient; see AsyncClient.request_recipient."""
        work = self._async.request_recipient(
            recipient, data, device=device, subject=subject, content_type=content_type, timeout=timeout
        )
        return self._portal.call(work)

    # Results.

    def status(self, id: str, to: str) -> Status:  # noqa: A002
        """Return what became of one recipient's copy."""
        return self._portal.call(self._async.status(id, to))

    def statuses(self, id: str) -> list[Status]:  # noqa: A002
        """Return what became of all copies of a notification."""
        return self._portal.call(self._async.statuses(id))

    def wait(self, id: str, to: str, timeout: Duration | None = None) -> Status:  # noqa: A002
        """Return once a recipient's copy is settled, with how; TimeoutError if it takes longer than timeout."""
        return self._portal.call(_bounded(self._async.wait(id, to), timeout))

    def events(self, *types: str, since: str | None = None) -> Iterator[Event]:
        """Follow the app's events of these types; see AsyncClient.events. It waits for the next one without end."""
        return self._portal.iterate(self._async.events(*types, since=since))

    # Recipients.

    def recipient(self, id: str) -> Recipient:  # noqa: A002
        """Return one recipient."""
        return self._portal.call(self._async.recipient(id))

    def recipients(self) -> Iterator[Recipient]:
        """Go through all recipients, by name."""
        return self._portal.iterate(self._async.recipients())

    def history(self, recipient: str, *, status: str | None = None) -> Iterator[Status]:
        """Go through a recipient's notifications, newest first."""
        return self._portal.iterate(self._async.history(recipient, status=status))

    def erase(self, recipient: str) -> None:
        """Forget everything about a recipient. One that is not known is no error."""
        self._portal.call(self._async.erase(recipient))

    def preferences(self, recipient: str) -> Preferences:
        """Return how a recipient may be reached beyond its sessions; of one that never said anything, by all means."""
        return self._portal.call(self._async.preferences(recipient))

    def set_preferences(self, recipient: str, preferences: Preferences) -> None:
        """Replace what a recipient says about how it may be reached. Empty ones take it back."""
        self._portal.call(self._async.set_preferences(recipient, preferences))

    def inbox(
        self, recipient: str, *, state: str = "all", category: str | None = None, limit: int = 100, cursor: str = ""
    ) -> InboxPage:
        """Return a page of what a recipient's inbox keeps; see AsyncClient.inbox."""
        return self._portal.call(
            self._async.inbox(recipient, state=state, category=category, limit=limit, cursor=cursor)
        )

    def mark_inbox(self, recipient: str, id: str, *, answered: str = "", **marks: bool) -> InboxItem:  # noqa: A002
        """Change an item of a recipient's inbox; see AsyncClient.mark_inbox."""
        return self._portal.call(self._async.mark_inbox(recipient, id, answered=answered, **marks))

    def mark_inbox_all(self, recipient: str, mark: str, *, until: str = "") -> InboxCounts:
        """Mark what a recipient's inbox keeps as seen, read or archived; see AsyncClient.mark_inbox_all."""
        return self._portal.call(self._async.mark_inbox_all(recipient, mark, until=until))

    def disconnect(self, recipient: str) -> int:
        """End a recipient's sessions, which may come back, and return how many there were."""
        return self._portal.call(self._async.disconnect(recipient))

    # Campaigns, endpoints and channels.

    def campaign(self, id: str = "", /, **fields: Unpack[CampaignFields]) -> Campaign:  # noqa: A002
        """Return a campaign: one that is there, by its id, or a new one; see AsyncClient.campaign."""
        return Campaign(self._portal, self._async.campaign(id, **fields))

    @property
    def endpoints(self) -> Endpoints:
        """The endpoints of the app."""
        return Endpoints(self._portal, self._async.endpoints)

    @property
    def channels(self) -> Channels:
        """The channels of the app."""
        return Channels(self._portal, self._async.channels)

    # Objects, for back ends.

    def put_object(
        self,
        group: str,
        name: str,
        *,
        version: int | str | None = None,
        payload: Any = None,
        unknown: bool = False,
        source: str = "",
    ) -> ObjectValue:
        """Say that an object is at a version; see AsyncClient.put_object."""
        return self._portal.call(
            self._async.put_object(group, name, version=version, payload=payload, unknown=unknown, source=source)
        )

    def delete_object(self, group: str, name: str) -> None:
        """Announce that an object's version is unknown. Its last version stays the floor of what can come."""
        self._portal.call(self._async.delete_object(group, name))

    def object(self, group: str, name: str) -> ObjectValue:
        """Return an object. One that was never seen is a ProblemError with status 404."""
        return self._portal.call(self._async.object(group, name))

    def objects(self, group: str, *, prefix: str = "") -> Iterator[ObjectValue]:
        """Go through the objects of a group, by name."""
        return self._portal.iterate(self._async.objects(group, prefix=prefix))

    def object_registrations(self, group: str, name: str) -> list[ObjectRegistration]:
        """Return who follows an object, and which version reached them."""
        return self._portal.call(self._async.object_registrations(group, name))

    # Recipients' programs.

    def acknowledge(self, recipient: str, ids: Sequence[str], *, device: str = "") -> int:
        """Acknowledge notifications without a connection, and return how many this call settled."""
        return self._portal.call(self._async.acknowledge(recipient, ids, device=device))

    def ack_tokens(self, tokens: Sequence[str], event: Literal["shown", "clicked", "dismissed"] | None = None) -> int:
        """Acknowledge what came by push, with the tokens that it brought; return how many copies this settled."""
        return self._portal.call(self._async.ack_tokens(tokens, event))

    def follow(
        self,
        handle: Callable[[ObjectVersion], None],
        *,
        group: str = "",
        state: State | None = None,
        on_change: Callable[[Change], None] | None = None,
    ) -> Objects:
        """Return what `listen` takes as objects: handle is called for every new version, in a thread of its own."""

        async def handle_version(version: ObjectVersion) -> None:
            await asyncio.to_thread(handle, version)

        return Objects(handle_version, group=group, state=state, on_change=_in_thread(on_change))

    def start_listening(
        self, recipient: str, handle: BlockingHandler | None = None, **options: Unpack[ListenFields]
    ) -> Listening:
        """Receive a recipient's notifications in the background until `stop` or `close`.

        The options are those of AsyncClient.listen, but handle and callbacks are plain functions. They run in threads,
        where they may block; they must not call `stop` or `close`, which wait for them.
        """
        threads = ThreadPoolExecutor(max(options.get("concurrency", 1), 1), thread_name_prefix="godwit handler")
        checked = ListenOptions(
            group=options.get("group", ""),
            device=options.get("device", ""),
            window=options.get("window", 0),
            heartbeat=options.get("heartbeat", 0.0),
            ack_delay=options.get("ack_delay", ACK_DELAY),
            concurrency=options.get("concurrency", 1),
            peek=options.get("peek", False),
            observe=options.get("observe", False),
            on_recall=_in_thread(options.get("on_recall")),
            on_inbox=_in_thread(options.get("on_inbox")),
            held=options.get("held"),
            on_connect=_in_thread(options.get("on_connect")),
            on_disconnect=_in_thread(options.get("on_disconnect")),
            on_error=_in_thread(options.get("on_error")),
            objects=options.get("objects"),
            topics=options.get("topics"),
            workers=options.get("workers"),
        )
        listener = self._async.listener(recipient, None if handle is None else _handler(handle, threads), checked)
        listening = Listening(self._portal, listener, self._portal.submit(_run(listener, threads)))
        self._listening.add(listening)
        listening.when_done(self._listening.discard)
        return listening

    def listen(self, recipient: str, handle: BlockingHandler | None = None, **options: Unpack[ListenFields]) -> None:
        """Receive a recipient's notifications until the server refuses the client, which raises RefusedError.

        An interruption, such as Ctrl-C, ends it gently. See `start_listening` to go on with other work meanwhile.
        """
        with self.start_listening(recipient, handle, **options) as listening:
            listening.wait()


def _in_thread(callback: Callable[..., None] | None) -> Callable[..., Coroutine[Any, Any, None]] | None:
    if callback is None:
        return None

    async def call(*args: object) -> None:
        await asyncio.to_thread(callback, *args)

    return call


def _handler(handle: BlockingHandler, threads: ThreadPoolExecutor) -> Callable[[Notification], Awaitable[Reply | None]]:
    async def call(n: Notification) -> Reply | None:
        return await asyncio.get_running_loop().run_in_executor(threads, handle, n)

    return call


async def _run(listener: Listener, threads: ThreadPoolExecutor) -> None:
    try:
        await listener.run()
    finally:
        threads.shutdown(wait=False)


async def _bounded(work: Awaitable[T], timeout: Duration | None) -> T:
    async with asyncio.timeout(None if timeout is None else seconds(timeout)):
        return await work


def _token_source(token: str | TokenSource | None) -> str | TokenSource | None:
    """Let a function that blocks do so in a thread."""
    if token is None or isinstance(token, str) or inspect.iscoroutinefunction(token):
        return token
    blocking = token

    async def ask() -> Token | str:
        got = await asyncio.to_thread(blocking)
        return await got if inspect.isawaitable(got) else got

    return ask
