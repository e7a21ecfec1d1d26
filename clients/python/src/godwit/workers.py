"""Answering requests within a session."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime

from .errors import ServeError
from .frames import MAX_BODY, ClientFrame, ErrorFrame, Reply, Request, Serve, Unserve
from .patterns import Patterns
from .values import check_name, check_topic

__all__ = ["RequestHandler", "Workers"]

log = logging.getLogger("godwit")

# The window of a session that names none.
_WINDOW = 64

# How many seconds the end of `listen` waits for requests that are being answered.
_PATIENCE = 10.0

RequestHandler = Callable[[Request], Awaitable[Reply | None] | Reply | None]
"""Answers one request: a coroutine function, or a plain one, which is run in a thread. None is an empty answer."""


class Workers(Patterns):
    """What a program serves. Give it to `listen`.

    handle answers the requests of the subjects that are served, and those made to the recipient by its name; as many at
    once as the window of `listen` says. A request comes at most once. On every new connection the subjects are served
    again. What handle raises stays here: who asked gets an answer with status 500. A coroutine is cancelled at the
    request's deadline, and when the connection it came on has ended: nobody can be answered then.

    When `listen` ends gently, nothing more is served, and up to 10 s are given to answer the requests under way.

    on_refused: is told of patterns that the server refused for good, which are dropped; else `listen`'s on_error is.
    """

    def __init__(
        self,
        handle: RequestHandler,
        *,
        on_refused: Callable[[ServeError], Awaitable[None] | None] | None = None,
    ) -> None:
        super().__init__(begin=Serve, end=Unserve, field="subjects")
        self.on_refused = on_refused
        self._handle = handle
        self._running: set[asyncio.Task[None]] = set()
        self._answers: list[ClientFrame] = []

    def serve(self, *subjects: str, queue: str = "") -> None:
        """Serve subjects or patterns of them: "*" stands for any one token, a final ">" for one or more.

        Of all who serve a subject in one queue, one gets each request; an empty queue is the usual one. It may be
        called at any time and from any thread, and changes nothing for what is served already.
        """
        if queue:
            check_name("queue", queue)
        for subject in subjects:
            check_topic(subject)
        self._add(subjects, queue)

    def unserve(self, *subjects: str, queue: str = "") -> None:
        """End what `serve` with the same queue began. Requests that are on their way still come."""
        self._remove(subjects, queue)

    # For the listener and its session.

    def disconnected(self) -> None:
        """Note that the session ended. What was asked on it cannot be answered any more."""
        self._answers.clear()
        for task in self._running:
            task.cancel()
        super().disconnected()

    def answers(self) -> list[ClientFrame]:
        """Return the answers to send now."""
        answers, self._answers = self._answers, []
        return answers

    def refused(self, e: ErrorFrame) -> ServeError | bool:
        """Take an error of the server. False: it is about something else; an error: the program is to be told."""
        if not self._without(e):
            return False
        return True if e.code == "unavailable" else ServeError(e.refused, e.code, e.message)

    def asked(self, request: Request, window: int) -> None:
        """Have a request answered. One for which there is no room is refused.

        Those that the server counts out because their deadline has passed may still be running here.
        """
        if len(self._running) >= (window or _WINDOW):
            self._answers.append(Reply(status=503).to(request))
            self._wake()
            return
        task = asyncio.create_task(self._answer(request))
        self._running.add(task)
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        self._wake()

    async def _answer(self, request: Request) -> None:
        writer = self._writer
        reply = await self._respond(request)
        if self._writer is writer and datetime.now(UTC) < request.deadline:  # else nobody waits any more
            self._answers.append(reply.to(request))

    async def _respond(self, request: Request) -> Reply:
        left = (request.deadline - datetime.now(UTC)).total_seconds()
        try:
            async with asyncio.timeout(max(left, 0.0)):
                if inspect.iscoroutinefunction(self._handle):
                    reply = await self._handle(request)
                else:
                    given = await asyncio.to_thread(self._handle, request)
                    reply = await given if inspect.isawaitable(given) else given
            reply = Reply() if reply is None else reply
            reply.check(MAX_BODY)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if task is None or task.cancelling():
                raise
            log.warning("request handler was cancelled", extra={"subject": request.subject})
        except TimeoutError:
            log.warning("request handler took too long", extra={"subject": request.subject})
        except Exception:
            log.exception("request handler failed", extra={"subject": request.subject})
        else:
            return reply
        return Reply(status=500)

    async def drain(self) -> None:
        """Serve no more and return when all that was asked is answered, or cannot be, or has taken too long."""
        self._end_all()
        try:
            async with asyncio.timeout(_PATIENCE):
                await self._until(lambda: self._all_ended() and not self._running)
        except TimeoutError:
            log.warning("requests were not answered in time", extra={"requests": len(self._running)})

    async def abandon(self) -> None:
        """Cancel what still runs."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)


async def unasked(_: Request) -> Reply:
    """Answer for a program that answers no requests."""
    return Reply("this client answers no requests", status=501, content_type="text/plain")
