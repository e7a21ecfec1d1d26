"""The feed of events."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing

from .backoff import CONNECT_BASE, CONNECT_MOST, Backoff
from .errors import ProblemError, UnreachableError
from .http import API, path
from .results import Event, Status

__all__ = ["Feed"]

# The feed says every 15 s that it lives.
_SILENCE = 45.0

# After these nothing more happens to a copy. The last: of one that nobody acknowledges.
_SETTLED_EVENTS = ("acked", "replied", "expired", "replaced", "recalled", "failed", "digested", "delivered")


class Feed:
    """Follows the events of an app."""

    def __init__(self, api: API) -> None:
        self._api = api

    async def events(self, types: Sequence[str], since: str | None) -> AsyncGenerator[Event, None]:
        """Follow events over as many connections as it takes."""
        wait = Backoff(CONNECT_BASE, CONNECT_MOST)
        while True:
            asked = 0.0
            try:
                async with aclosing(self._once(types, since)) as events:
                    async for event in events:
                        if event is not None:
                            since = event.event_id
                            wait.reset()
                            yield event
            except ProblemError as e:
                if not e.problem.temporary:
                    raise
                asked = e.retry_after
            except UnreachableError:
                pass
            await asyncio.sleep(max(wait.next(), asked))

    async def _once(self, types: Sequence[str], since: str | None) -> AsyncGenerator[Event | None, None]:
        """Follow events over one connection. The first is None: from here on nothing is missed."""
        query = {"types": ",".join(types), "since": since}
        doing = "follow events"
        async with self._api.stream(
            path("v1", "events"), query=query, accept="application/x-ndjson", silence=_SILENCE, doing=doing
        ) as response:
            yield None
            async with aclosing(response.lines()) as lines:
                async for line in lines:
                    if line.strip():
                        yield Event.from_json(json.loads(line))

    async def wait(self, name: str, to: str, status: Callable[[str, str], Awaitable[Status]]) -> Status:
        """Return the status of a copy once it is settled."""
        wait = Backoff(CONNECT_BASE, CONNECT_MOST)
        while True:
            try:
                # The status is looked at after the feed is open, so that nothing falls in between.
                async with aclosing(self._once(_SETTLED_EVENTS, None)) as events:
                    async for event in events:
                        if event is None or (event.id == name and event.to == to):
                            now = await status(name, to)
                            if now.settled:
                                return now
            except ProblemError as e:
                if not e.problem.temporary:
                    raise
            except UnreachableError:
                pass
            await asyncio.sleep(wait.next())
