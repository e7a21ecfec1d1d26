"""What a back end asks of the server, over asyncio."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Unpack, overload

from .batch import publish_batch
from .campaigns import AsyncCampaign, CampaignFields
from .errors import ProblemError
from .feed import Feed
from .frames import MAX_BODY
from .http import API, Query, path
from .inbox import InboxCounts, InboxItem, InboxPage
from .publication import Publication, PublicationFields, encode_body, new_id
from .results import Event, ObjectRegistration, ObjectValue, Preferences, Receipt, Recipient, Response, Status
from .values import Duration, check_name, check_topic, format_duration, parse_version, seconds

if TYPE_CHECKING:
    from .rpc import RPC

__all__ = ["ANSWER_TIMEOUT", "BackEnd"]

# Seconds that a request waits for its answer.
ANSWER_TIMEOUT = 5.0

# Of one page of a list.
_PAGE = 100


class BackEnd:
    """The part of AsyncClient that needs an API key."""

    def __init__(self, api: API, attempts: int, rpc: RPC | None = None) -> None:
        self._api = api
        self._rpc = rpc
        self._attempts = attempts
        self._feed = Feed(api)

    # Publishing.

    @overload
    async def publish(  # type: ignore[overload-overlap]  # a str is a sequence of str, too
        self, to: str, /, *, idempotency_key: str = "", traceparent: str = "", **fields: Unpack[PublicationFields]
    ) -> Receipt: ...

    @overload
    async def publish(
        self,
        to: Sequence[str],
        /,
        *,
        idempotency_key: str = "",
        traceparent: str = "",
        **fields: Unpack[PublicationFields],
    ) -> list[Receipt]: ...

    async def publish(
        self,
        to: str | Sequence[str],
        /,
        *,
        idempotency_key: str = "",
        traceparent: str = "",
        **fields: Unpack[PublicationFields],
    ) -> Receipt | list[Receipt]:
        """Store a notification and return once it is on the server's disk.

        With a list of up to 1,000 recipients there is a receipt for each, in order, and some may carry a problem while
        others do not. After an error it may have been stored all the same: publish again with the same id.

        idempotency_key: names the request of a program that keeps no ids: the server derives the id from it.
        traceparent: the trace that the publish belongs to, as W3C's header of that name has it; `inject` of
        OpenTelemetry writes it.
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
        if traceparent:
            headers["traceparent"] = traceparent
        if self._rpc is not None:
            receipts = await self._rpc.publish(request, headers, doing)
            if not single:
                return receipts
            if receipts[0].problem is not None:
                raise ProblemError(receipts[0].problem, doing)
            return receipts[0]
        answer = await self._api.json("POST", path("v1", "notifications"), body=request, headers=headers, doing=doing)
        if single:
            return Receipt.from_json(answer)
        return [Receipt.from_json(r) for r in answer["results"]]

    async def publish_batch(self, publications: Iterable[Publication]) -> list[Receipt]:
        """Store any number of notifications in as few requests as possible.

        There is a receipt for each, in order; a bad one stops nothing. Those that failed for a reason that may pass are
        tried again. A request that fails as a whole is a BatchError, which has the receipts so far.
        """
        return await publish_batch(self._api, publications, attempts=self._attempts, rpc=self._rpc)

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
        target, doing = path("v1", "notifications", id), f"recall {id}"
        if self._rpc is not None:
            return await self._rpc.recall(id, to, doing)
        answer = await self._api.json("DELETE", target, query={"to": to}, doing=doing)
        return int(answer["recalled"])

    async def publish_message(self, topic: str, data: Any = None, *, content_type: str = "") -> None:
        """Hand a message to whoever subscribes to a topic now.

        At most once: it is tried once, and nobody tells whom it reached.

        data: a JSON value; or bytes, which are JSON if they are valid JSON, else text if they are UTF-8, else bytes; at
        most 64 KB. content_type: where it is not what data looks like.
        """
        body, content_type = encode_body(data, content_type)
        target, doing = path("v1", "topics", check_topic(topic)), f"publish to topic {topic}"
        if self._rpc is not None:
            await self._rpc.publish_message(topic, body, content_type, doing)
            return
        await self._api.call("POST", target, content=body, content_type=content_type, once=True, doing=doing)

    async def request(
        self, subject: str, data: Any = None, *, content_type: str = "", timeout: Duration = ANSWER_TIMEOUT
    ) -> Response:
        """Ask one of those who serve a subject, and return the answer, whatever its status.

        It is tried once: a worker may have done what it was asked although no answer came. NobodyServesError says that
        nobody was asked, NoAnswerError that no answer came.

        data: a JSON value; or bytes, which are JSON if they are valid JSON, else text if they are UTF-8, else bytes; at
        most 1 MiB. content_type: where it is not what data looks like. timeout: for the answer, at most 60 s.
        """
        target, doing = path("v1", "requests", check_topic(subject)), f"request {subject}"
        body, content_type = _question(data, content_type)
        if self._rpc is not None:
            return await self._rpc.ask(subject, body, content_type, seconds(timeout), doing)
        return await self._ask(target, {}, body, content_type, timeout, doing)

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
        doing = f"request to {recipient}"
        body, content_type = _question(data, content_type)
        if self._rpc is not None:
            wait = seconds(timeout)
            return await self._rpc.ask_recipient(recipient, device, subject, body, content_type, wait, doing)
        return await self._ask(target, query, body, content_type, timeout, doing)

    async def _ask(
        self, target: str, query: Query, body: bytes, content_type: str, timeout: Duration, doing: str
    ) -> Response:
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

    # Results.

    async def status(self, id: str, to: str) -> Status:  # noqa: A002
        """Return what became of one recipient's copy."""
        target, doing = path("v1", "notifications", id), f"read status of {id} for {to}"
        if self._rpc is not None:
            return (await self._rpc.statuses(id, check_name("recipient", to), doing))[0]
        return Status.from_json(await self._api.json("GET", target, query={"to": to}, doing=doing))

    async def statuses(self, id: str) -> list[Status]:  # noqa: A002
        """Return what became of all copies of a notification."""
        target, doing = path("v1", "notifications", id), f"read status of {id}"
        if self._rpc is not None:
            return await self._rpc.statuses(id, "", doing)
        answer = await self._api.json("GET", target, doing=doing)
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

    async def inbox(
        self, recipient: str, *, state: str = "all", category: str | None = None, limit: int = 100, cursor: str = ""
    ) -> InboxPage:
        """Return a page of what a recipient's inbox keeps, newest first, with the counts of the whole inbox.

        state: all (what is not archived), unseen, unread, archived or pinned. category: only items of this one; empty:
        those without one. cursor: next_cursor of the page before.
        """
        query = {"to": recipient, "state": state, "category": category, "limit": limit, "cursor": cursor or None}
        answer = await self._api.json("GET", path("v1", "inbox"), query=query, doing=f"read the inbox of {recipient}")
        return InboxPage.from_json(answer)

    async def mark_inbox(self, recipient: str, id: str, *, answered: str = "", **marks: bool) -> InboxItem:  # noqa: A002
        """Change an item of a recipient's inbox and return it.

        marks: seen, read, archived and pinned, true or false each. What is read or archived was seen. answered: the id
        of an action, which answers the notification and makes the item read; the first answer stays. Of an item that is
        not there a ProblemError is raised, status 404.
        """
        body = {**marks, "answered": answered} if answered else marks
        answer = await self._api.json(
            "POST", path("v1", "inbox", id), query={"to": recipient}, body=body, doing=f"mark {id} of {recipient}"
        )
        return InboxItem.from_json(answer["item"])

    async def mark_inbox_all(self, recipient: str, mark: str, *, until: str = "") -> InboxCounts:
        """Mark everything that is not archived, or what a page until has listed, as seen, read or archived."""
        answer = await self._api.json(
            "POST",
            path("v1", "inbox", mark),
            query={"to": recipient},
            body={"until": until} if until else {},
            doing=f"mark the inbox of {recipient} as {mark}",
        )
        return InboxCounts.from_json(answer)

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
        if not id and "content" not in fields and "template" not in fields:
            raise ValueError("a new campaign needs its content, or a template")
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
        target, doing = path("v1", "objects", group, name), f"put object {group}/{name}"
        if self._rpc is not None:
            answer = await self._rpc.put_object(group, name, request, doing)
        else:
            answer = await self._api.json("PUT", target, body=request, doing=doing)
        return ObjectValue.from_json(answer, group, name)

    async def delete_object(self, group: str, name: str) -> None:
        """Announce that an object's version is unknown. Its last version stays the floor of what can come."""
        target, doing = path("v1", "objects", group, name), f"delete object {group}/{name}"
        if self._rpc is not None:
            await self._rpc.delete_object(group, name, doing)
            return
        await self._api.call("DELETE", target, doing=doing)

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


def _question(data: Any, content_type: str) -> tuple[bytes, str]:
    """Return what is asked as bytes, with its type."""
    body, content_type = encode_body(data, content_type)
    if len(body) > MAX_BODY:
        raise ValueError(f"data has {len(body)} bytes; at most {MAX_BODY} are allowed")
    return body, content_type
