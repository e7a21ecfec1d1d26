"""The asyncio client."""

from __future__ import annotations

import ssl
from collections.abc import Awaitable, Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self
from urllib.parse import urlsplit

from .backend import BackEnd
from .connection import Connection
from .endpoints import AsyncChannels, AsyncEndpoints
from .errors import GodwitError
from .frames import InboxNews, Welcome
from .http import API, path
from .listener import Handler, Listener, ListenOptions
from .objects import Objects
from .outbox import ACK_DELAY
from .token import TokenSource
from .topics import Topics
from .values import Duration, seconds
from .websocket import dial_websocket
from .workers import Workers

if TYPE_CHECKING:
    import grpc
    import httpx

    from .rpc import RPC

__all__ = ["AsyncClient"]

# Tries of one request, the first included.
_ATTEMPTS = 6

# Seconds of one try.
_TIMEOUT = 30.0

# The server takes no more in a request.
_ACK_TOKENS = 100


class AsyncClient(BackEnd):
    """Talks to one server, or to a cluster behind one address.

    A back end gives an API key and publishes; a recipient's program gives a token and listens. Use it as an
    asynchronous context manager, or call `close` in the end.

    server: an http or https URL, such as "https://godwit.example.org".
    api_key: of a back end: role publish for publishing, read for status and events.
    token: a recipient's token, or a function that returns one that is valid now.
    app: where neither key nor token says it and the server has several.
    tls: certificates for https and wss; the system's authorities unless given.
    grpc_address: makes `listen` use gRPC at "host:port" instead of a WebSocket; plain unless there are credentials. It
    needs godwit-client[grpc].
    rpc: makes a back end's calls use gRPC at that address instead of HTTP, over one connection: publish, publish_batch,
    recall, status, statuses, put_object, delete_object, publish_message, request and request_recipient. The others
    still use HTTP.
    http: replaces the HTTP client, for tests or proxies beyond those that the environment names. It is not closed here.
    attempts: how often one request is tried in all. timeout: seconds of one try.
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
        http: httpx.AsyncClient | None = None,
        attempts: int = _ATTEMPTS,
        timeout: Duration = _TIMEOUT,
    ) -> None:
        base = server.rstrip("/")
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"server address {server!r} is not an http or https URL")
        if "?" in server or "#" in server:
            raise ValueError(f"server address {server!r} must end before ? and #: paths are added to it")
        self._base = base
        self._key = api_key
        self._token: TokenSource | None = (lambda: token) if isinstance(token, str) else token
        self._app = app
        self._tls = tls
        if grpc_address is not None:
            from . import grpcconn  # noqa: F401  # says what is missing now, and not at each connect
        self._grpc_address = grpc_address
        self._grpc_credentials = grpc_credentials
        self._grpc_options = tuple(grpc_options)
        self._timeout = seconds(timeout)
        self._http = http
        attempts = max(attempts, 1)
        api = API(base, key=api_key, tls=tls, attempts=attempts, timeout=self._timeout, http=http)
        super().__init__(api, attempts, self._open_rpc(attempts) if rpc else None)
        self.endpoints = AsyncEndpoints(self._api)
        self.channels = AsyncChannels(self._api)

    def _open_rpc(self, attempts: int) -> RPC:
        if self._grpc_address is None:
            raise ValueError("rpc needs the server's gRPC address: give grpc_address")
        from .rpc import RPC

        return RPC(
            self._grpc_address,
            credentials=self._grpc_credentials,
            options=self._grpc_options,
            key=self._key,
            attempts=attempts,
            timeout=self._timeout,
        )

    async def close(self) -> None:
        """Close idle connections."""
        await self._api.close()
        if self._rpc is not None:
            await self._rpc.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Recipients' programs.

    async def acknowledge(self, recipient: str, ids: Sequence[str], *, device: str = "") -> int:
        """Acknowledge notifications without a connection, and return how many this call settled.

        For what came another way, such as a push. It needs a token, or a development server.
        """
        token = await self.listener(recipient, None, ListenOptions()).token()
        api = API(
            self._base, key=token.value, tls=self._tls, attempts=self._attempts, timeout=self._timeout, http=self._http
        )
        try:
            answer = await api.json(
                "POST",
                path("v1", "acks"),
                query={"app": self._app, "recipient": recipient, "device": device},
                body={"ids": list(ids)},
                doing=f"acknowledge for {recipient}",
            )
        finally:
            await api.close()
        return int(answer["acked"])

    async def ack_tokens(
        self, tokens: Sequence[str], event: Literal["shown", "clicked", "dismissed"] | None = None
    ) -> int:
        """Acknowledge what came by push with the tokens that it brought (`godwit_ack`); no token of a client is needed.

        event: what became of it; shown settles only what was published so. Returns how many copies this call settled: 0
        for those that were settled before. Only where none of the tokens is good a ProblemError is raised, status 401.
        """
        acked = 0
        for i in range(0, len(tokens), _ACK_TOKENS):
            body: dict[str, Any] = {"tokens": list(tokens[i : i + _ACK_TOKENS])}
            if event:
                body["event"] = event
            answer = await self._api.json("POST", path("v1", "acks"), body=body, doing="acknowledge by token")
            acked += int(answer["acked"])
        return acked

    async def listen(
        self,
        recipient: str,
        handle: Handler | None = None,
        *,
        device: str = "",
        group: str = "",
        window: int = 0,
        heartbeat: Duration = 0.0,
        ack_delay: Duration = ACK_DELAY,
        concurrency: int = 1,
        peek: bool = False,
        observe: bool = False,
        objects: Objects | None = None,
        topics: Topics | None = None,
        workers: Workers | None = None,
        held: Callable[[], Sequence[str]] | None = None,
        on_recall: Callable[[Sequence[str]], Awaitable[None] | None] | None = None,
        on_inbox: Callable[[InboxNews], Awaitable[None] | None] | None = None,
        on_connect: Callable[[Welcome], Awaitable[None] | None] | None = None,
        on_disconnect: Callable[[GodwitError, float], Awaitable[None] | None] | None = None,
        on_error: Callable[[GodwitError], Awaitable[None] | None] | None = None,
    ) -> None:
        """Receive a recipient's notifications until this task is cancelled.

        handle is called for every notification; when it returns, the notification is acknowledged, which settles it for
        good; a Reply that it returns answers it, which settles it as replied. An exception asks for redelivery after a
        while; NackAfter says after which. Without it only `objects` and `topics` are followed and `workers` answer, and
        notifications stay unacknowledged.

        Connections that fail or end are made again: at once after one that was good, then after random waits of up to
        1 s, doubling to 5 min, or when the server said. A notification is handled once however often it is delivered,
        as far as the last 8,192 are concerned. Only when the server refuses the client it gives up, with RefusedError.
        Cancelling cancels the handlers that run, and sends the acknowledgements of those that have returned.

        device: names the device, so that a notification with ack "all" waits for it. A second session of the same
        device closes the first, which then ends with RefusedError of reason "replaced".
        group: of the session's objects. objects: what to follow. topics: what to subscribe to.
        workers: what to serve. Without, requests made to the recipient are answered with status 501.
        window: bounds the notifications sent and not yet acknowledged, and the requests not yet answered: 1 to 1,024
        each; 0: 64.
        heartbeat: asks for one, 5 s to 24 h; 0: 30 s. A connection that is silent for two is given up.
        ack_delay: how long acknowledgements wait so that several share a frame, 0 to 1 s; 0: none waits. One that comes
        after as long a time without any leaves at once, and none waits where half of the window does. A program that is
        killed meanwhile gets what it has not acknowledged again.
        concurrency: how many handlers run at once; 1 keeps the order.
        peek: only observe, with an API key of role read instead of a token: nothing is acknowledged.
        observe: only watch, with the client's own token: nothing is acknowledged, and the recipient does not count as
        connected by it.
        held: says, at every connect, which notifications are still shown; those settled meanwhile are recalled.
        on_recall: is told of ids that need not be shown any more: settled elsewhere, replaced or withdrawn.
        on_inbox: is told of changes in the recipient's inbox, and of its counts when a session begins.
        on_connect: is told of every session that begins.
        on_disconnect: is told why a connection ended, or could not be made, and in how many seconds the next is tried.
        on_error: is told, beside the log, of what ends nothing: UndecodableError of what the server sent and cannot be
        read, which is answered by asking for it again later; FrameError of what the server did not take.
        The connection waits for these callbacks; they may be coroutine functions.
        """
        options = ListenOptions(
            group=group,
            device=device,
            window=window,
            heartbeat=heartbeat,
            ack_delay=ack_delay,
            concurrency=concurrency,
            peek=peek,
            observe=observe,
            on_recall=on_recall,
            on_inbox=on_inbox,
            held=held,
            on_connect=on_connect,
            on_disconnect=on_disconnect,
            on_error=on_error,
            objects=objects,
            topics=topics,
            workers=workers,
        )
        await self.listener(recipient, handle, options).run()

    def listener(self, recipient: str, handle: Handler | None, options: ListenOptions) -> Listener:
        """Return what `listen` runs, for programs that want to end it gently."""
        return Listener(
            self._dial,
            recipient,
            handle,
            options,
            app=self._app,
            token=self._token,
            key=self._key,
            timeout=self._timeout,
        )

    async def _dial(self) -> Connection:
        if self._grpc_address is not None:
            from .grpcconn import dial_grpc

            return await dial_grpc(
                self._grpc_address,
                credentials=self._grpc_credentials,
                options=self._grpc_options,
                timeout=self._timeout,
            )
        url = "ws" + self._base.removeprefix("http") + "/v1/connect"
        return await dial_websocket(url, tls=self._tls, timeout=self._timeout)
