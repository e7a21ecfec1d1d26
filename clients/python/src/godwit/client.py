"""The asyncio client."""

from __future__ import annotations

import ssl
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack, overload
from urllib.parse import urlsplit

from .batch import publish_batch
from .campaigns import AsyncCampaign, CampaignFields
from .connection import Connection
from .endpoints import AsyncChannels, AsyncEndpoints
from .errors import GodwitError, ProblemError
from .feed import Feed
from .frames import MAX_BODY, Welcome
from .http import API, Query, path
from .listener import Handler, Listener, ListenOptions
from .objects import Objects
from .publication import Publication, PublicationFields, encode_body, new_id
from .results import Event, ObjectRegistration, ObjectValue, Preferences, Receipt, Recipient, Response, Status
from .token import TokenSource
from .topics import Topics
from .values import Duration, check_name, check_topic, format_duration, parse_version, seconds
from .websocket import dial_websocket
from .workers import Workers

if TYPE_CHECKING:
    import grpc
    import httpx

__all__ = ["ANSWER_TIMEOUT", "AsyncClient"]

# Tries of one request, the first included.
_ATTEMPTS = 6

# Seconds of one try.
_TIMEOUT = 30.0

# Seconds that a request waits for its answer.
ANSWER_TIMEOUT = 5.0

# Of one page of a list.
_PAGE = 100

# The server takes no more in a request.
_ACK_TOKENS = 100


class AsyncClient:
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
        http: httpx.AsyncClient | None = None,
        attempts: int = _ATTEMPTS,
        timeout: Duration = _TIMEOUT,
    ) -> None:
        base = server.rstrip("/")
        parts = urlsplit(base)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ValueError(f"server address {server!r} is not an http or https URL")
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
        self._attempts = max(attempts, 1)
        self._http = http
        self._api = API(base, key=api_key, tls=tls, attempts=self._attempts, timeout=self._timeout, http=http)
        self._feed = Feed(self._api)
        self.endpoints = AsyncEndpoints(self._api)
        self.channels = AsyncChannels(self._api)

    async def close(self) -> None:
        """Close idle connections."""
        await self._api.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # Publishing.

    @overload
    async def publish(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, to: str, /, *, idempotency_key: str = "", **fields: Unpack[PublicationFields]
    ) -> Receipt: ...

    @overload
    async def publish(
        self, to: Sequence[str], /, *, idempotency_key: str = "", **fields: Unpack[PublicationFields]
    ) -> list[Receipt]: ...

    async def publish(
        self, to: str | Sequence[str], /, *, idempotency_key: str = "", **fields: Unpack[PublicationFields]
    ) -> Receipt | list[Receipt]:
        """Store a notification and return once it is on the server's disk.

        With a list of up to 1,000 recipients there is a receipt for each, in order, and some may carry a problem while
        others do not. After an error it may have been stored all the same: publish again with the same id.

        idempotency_key: names the request of a program that keeps no ids: the server derives the id from it.
        """
        single = isinstance(to, str)
        request = Publication(to="", **fields).to_json(to)
        whom = to if single else f"{len(to)} recipients"
        doing = f"publish {request['id']} to {whom}"
        headers = {}
        if idempotency_key:
            headers["Idempotency-Key"] = idempotency_key
            if not fields.get("id"):
                del request["id"]
        answer = await self._api.json("POST", path("v1", "notifications"), body=request, headers=headers, doing=doing)
        if single:
            return Receipt.from_json(answer)
        return [Receipt.from_json(r) for r in answer["results"]]

    async def publish_batch(self, publications: Iterable[Publication]) -> list[Receipt]:
        """Store any number of notifications in as few requests as possible.

        There is a receipt for each, in order; a bad one stops nothing. Those that failed for a reason that may pass are
        tried again. A request that fails as a whole is a BatchError, which has the receipts so far.
        """
        return await publish_batch(self._api, publications, attempts=self._attempts)

    async def notify(
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
        query = {"id": id or new_id(), "title": title, "ttl": None if ttl is None else format_duration(ttl)}
        answer = await self._api.json(
            "POST",
            path("v1", "notify", recipient),
            query=query,
            content=text.encode(),
            content_type="text/plain; charset=utf-8",
            doing=f"notify {recipient}",
        )
        return Receipt.from_json(answer)

    async def recall(self, id: str, to: str | None = None) -> int:  # noqa: A002
        """Withdraw a notification from a recipient, or from all, and return how many copies were withdrawn.

        Copies that are settled stay as they are.
        """
        answer = await self._api.json("DELETE", path("v1", "notifications", id), query={"to": to}, doing=f"recall {id}")
        return int(answer["recalled"])

    async def publish_message(self, topic: str, data: Any = None, *, content_type: str = "") -> None:
        """Hand a message to whoever subscribes to a topic now.

        At most once: it is tried once, and nobody tells whom it reached.

        data: a JSON value; or bytes, which are JSON if they are valid JSON, else text if they are UTF-8, else bytes; at
        most 64 KB. content_type: where it is not what data looks like.
        """
        body, content_type = encode_body(data, content_type)
        await self._api.call(
            "POST",
            path("v1", "topics", check_topic(topic)),
            content=body,
            content_type=content_type,
            once=True,
            doing=f"publish to topic {topic}",
        )

    async def request(
        self, subject: str, data: Any = None, *, content_type: str = "", timeout: Duration = ANSWER_TIMEOUT
    ) -> Response:
        """Ask one of those who serve a subject, and return the answer, whatever its status.

        It is tried once: a worker may have done what it was asked although no answer came. NobodyServesError says that
        nobody was asked, NoAnswerError that no answer came.

        data: a JSON value; or bytes, which are JSON if they are valid JSON, else text if they are UTF-8, else bytes; at
        most 1 MiB. content_type: where it is not what data looks like. timeout: for the answer, at most 60 s.
        """
        target = path("v1", "requests", check_topic(subject))
        return await self._ask(target, {}, data, content_type, timeout, f"request {subject}")

    async def request_recipient(
        self,
        recipient: str,
        data: Any = None,
        *,
        device: str = "",
        subject: str = "",
        content_type: str = "",
        timeout: Duration = ANSWER_TIMEOUT,
    ) -> Response:
        """Ask the newest session of a recipient that does not only observe, or of one of its devices; see `request`.

        subject: what the client is told that it is asked. To ask one that may sleep, publish with reply_by.
        """
        query = {"device": device, "subject": subject}
        target = path("v1", "recipients", check_name("recipient", recipient), "requests")
        return await self._ask(target, query, data, content_type, timeout, f"request to {recipient}")

    async def _ask(
        self, target: str, query: Query, data: Any, content_type: str, timeout: Duration, doing: str
    ) -> Response:
        body, content_type = encode_body(data, content_type)
        if len(body) > MAX_BODY:
            raise ValueError(f"data has {len(body)} bytes; at most {MAX_BODY} are allowed")
        got = await self._api.ask(
            target,
            query={**query, "timeout": format_duration(timeout)},
            content=body,
            content_type=content_type,
            wait=seconds(timeout),
            doing=doing,
        )
        headers: dict[str, tuple[str, ...]] = {}
        for name, value in got.headers:
            headers[name] = (*headers.get(name, ()), value)
        kind = headers.pop("content-type", ("",))[0]
        return Response(status=got.status, headers=headers, content_type=kind, data=got.content)

    # What became of it.

    async def status(self, id: str, to: str) -> Status:  # noqa: A002
        """Return what became of one recipient's copy."""
        answer = await self._api.json(
            "GET", path("v1", "notifications", id), query={"to": to}, doing=f"read status of {id} for {to}"
        )
        return Status.from_json(answer)

    async def statuses(self, id: str) -> list[Status]:  # noqa: A002
        """Return what became of all copies of a notification."""
        answer = await self._api.json("GET", path("v1", "notifications", id), doing=f"read status of {id}")
        return [Status.from_json(s) for s in answer["items"]]

    async def wait(self, id: str, to: str) -> Status:  # noqa: A002
        """Return once a recipient's copy is settled, with how.

        It follows the events, so it learns of an acknowledgement at once. Bound it with `asyncio.timeout`.
        """
        return await self._feed.wait(id, to, self.status)

    def events(self, *types: str, since: str | None = None) -> AsyncGenerator[Event, None]:
        """Follow the app's events of these types (none: all) after the event `since` (None: from now on).

        It reconnects and goes on where it was, and ends only with a refusal, which is raised.
        """
        return self._feed.events(types, since)

    # Recipients.

    async def recipient(self, id: str) -> Recipient:  # noqa: A002
        """Return one recipient."""
        answer = await self._api.json("GET", path("v1", "recipients", id), doing=f"read recipient {id}")
        return Recipient.from_json(answer)

    async def recipients(self) -> AsyncGenerator[Recipient, None]:
        """Go through all recipients, by name."""
        async for item in self._pages(path("v1", "recipients"), {}, "list recipients"):
            yield Recipient.from_json(item)

    async def history(self, recipient: str, *, status: str | None = None) -> AsyncGenerator[Status, None]:
        """Go through a recipient's notifications, newest first."""
        target = path("v1", "recipients", recipient, "notifications")
        async for item in self._pages(target, {"status": status}, f"read history of {recipient}"):
            yield Status.from_json(item)

    async def erase(self, recipient: str) -> None:
        """Forget everything about a recipient. One that is not known is no error."""
        try:
            await self._api.call("DELETE", path("v1", "recipients", recipient), doing=f"erase {recipient}")
        except ProblemError as e:
            if e.status != 404:
                raise

    async def preferences(self, recipient: str) -> Preferences:
        """Return how a recipient may be reached beyond its sessions; of one that never said anything, by all means."""
        target = path("v1", "recipients", recipient, "preferences")
        return Preferences.from_json(await self._api.json("GET", target, doing=f"read preferences of {recipient}"))

    async def set_preferences(self, recipient: str, preferences: Preferences) -> None:
        """Replace what a recipient says about how it may be reached. Empty ones take it back."""
        target = path("v1", "recipients", recipient, "preferences")
        await self._api.json("PUT", target, body=preferences.to_json(), doing=f"set preferences of {recipient}")

    async def disconnect(self, recipient: str) -> int:
        """End a recipient's sessions, which may come back, and return how many there were."""
        answer = await self._api.json(
            "DELETE", path("v1", "recipients", recipient, "sessions"), doing=f"disconnect {recipient}"
        )
        return int(answer["disconnected"])

    async def _pages(self, target: str, query: Query, doing: str) -> AsyncGenerator[dict[str, Any], None]:
        cursor: str | None = None
        while True:
            page = await self._api.json("GET", target, query={**query, "limit": _PAGE, "cursor": cursor}, doing=doing)
            for item in page["items"]:
                yield item
            cursor = page.get("next_cursor")
            if not cursor:
                return

    # Campaigns.

    def campaign(self, id: str = "", /, **fields: Unpack[CampaignFields]) -> AsyncCampaign:  # noqa: A002
        """Return a campaign: one that is there, by its id, or a new one, which its first method makes.

        `await client.campaign(content={"title": "Hi {{name|friend}}"}, audience={"tags_any": ["news"]}).start()`
        """
        if id and fields:
            raise ValueError("a campaign is named by its id or described by its fields; revise() changes one")
        if not id and "content" not in fields:
            raise ValueError("a new campaign needs its content")
        return AsyncCampaign(self._api, id, fields)

    # Objects, for back ends.

    async def put_object(
        self,
        group: str,
        name: str,
        *,
        version: int | str | None = None,
        payload: Any = None,
        unknown: bool = False,
        source: str = "",
    ) -> ObjectValue:
        """Say that an object is at a version, and return the one that is stored.

        version: from 1 to 2^63-1; None takes the next. One that is not above the current changes nothing. Where a
        retry must not count twice, give it.
        payload: any JSON of at most 4 KB. unknown: nobody can say which version is the latest.
        source: the recipient, or "recipient/device", that made the change and is not told.
        """
        request: dict[str, Any] = {}
        if version is not None:
            request["version"] = str(parse_version(version))
        if payload is not None:
            request["payload"] = payload
        if unknown:
            request["unknown"] = True
        if source:
            request["source"] = source
        answer = await self._api.json(
            "PUT", path("v1", "objects", group, name), body=request, doing=f"put object {group}/{name}"
        )
        return ObjectValue.from_json(answer, group, name)

    async def delete_object(self, group: str, name: str) -> None:
        """Announce that an object's version is unknown. Its last version stays the floor of what can come."""
        await self._api.call("DELETE", path("v1", "objects", group, name), doing=f"delete object {group}/{name}")

    async def object(self, group: str, name: str) -> ObjectValue:
        """Return an object. One that was never seen is a ProblemError with status 404."""
        answer = await self._api.json("GET", path("v1", "objects", group, name), doing=f"read object {group}/{name}")
        return ObjectValue.from_json(answer, group, name)

    async def objects(self, group: str, *, prefix: str = "") -> AsyncGenerator[ObjectValue, None]:
        """Go through the objects of a group, by name."""
        async for item in self._pages(path("v1", "objects", group), {"prefix": prefix}, f"list objects of {group}"):
            yield ObjectValue.from_json(item, group)

    async def object_registrations(self, group: str, name: str) -> list[ObjectRegistration]:
        """Return who follows an object, and which version reached them."""
        target = path("v1", "objects", group, name, "registrations")
        response = await self._api.call("GET", target, doing=f"read registrations of {group}/{name}")
        answer = response.json()
        items = answer if isinstance(answer, list) else answer["items"]
        return [ObjectRegistration.from_json(item) for item in items]

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
        concurrency: int = 1,
        peek: bool = False,
        objects: Objects | None = None,
        topics: Topics | None = None,
        workers: Workers | None = None,
        held: Callable[[], Sequence[str]] | None = None,
        on_recall: Callable[[Sequence[str]], Awaitable[None] | None] | None = None,
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
        concurrency: how many handlers run at once; 1 keeps the order.
        peek: only observe, with an API key of role read instead of a token: nothing is acknowledged.
        held: says, at every connect, which notifications are still shown; those settled meanwhile are recalled.
        on_recall: is told of ids that need not be shown any more: settled elsewhere, replaced or withdrawn.
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
            concurrency=concurrency,
            peek=peek,
            on_recall=on_recall,
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
