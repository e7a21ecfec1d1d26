"""Requests to the API, and their retries."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any, TypeVar
from urllib.parse import quote, urlencode

from .backoff import REQUEST_BASE, REQUEST_MOST, Backoff
from .carrier import Answer, Carrier, CarrierError, Streamed
from .errors import (
    GodwitError,
    NoAnswerError,
    NobodyServesError,
    Problem,
    ProblemError,
    UnreachableError,
    retry_after,
)
from .httpcarrier import HTTP

if TYPE_CHECKING:
    import httpx

__all__ = ["API", "failure", "path", "read_problem", "retry"]

T = TypeVar("T")

# How many seconds a request may take beside the wait for its answer.
_ANSWER_SLACK = 10.0

# The errors for problems of requests.
_NO_ANSWERS: dict[str, type[ProblemError]] = {
    "/problems/nobody-serves": NobodyServesError,
    "/problems/workers-busy": NobodyServesError,
    "/problems/not-connected": NobodyServesError,
    "/problems/no-answer": NoAnswerError,
    "/problems/worker-gone": NoAnswerError,
}

Query = Mapping[str, str | int | None]


def path(*parts: str) -> str:
    """Join the parts of a path, each escaped.

    Parts that URLs take for a step to another path are refused with a ValueError.
    """
    for part in parts:
        if part in ("", ".", ".."):
            raise ValueError(f"{part!r} is no name of a recipient, a notification or anything else that has a path")
    return "/" + "/".join(quote(p, safe="") for p in parts)


def read_problem(status: int, body: bytes, retry_header: str | None) -> Problem:
    """Return what a response that is not a success says."""
    wait = retry_after(retry_header)
    try:
        fields = json.loads(body)
        return Problem.from_json(fields, status=status, retry_after=wait)
    except (ValueError, TypeError, AttributeError):
        return Problem(status=status, detail=body[:200].decode(errors="replace").strip(), retry_after=wait)


async def retry(attempts: int, once: Callable[[], Awaitable[T]]) -> T:
    """Carry out a request, again after failures that may pass, as often as is allowed."""
    wait = Backoff(REQUEST_BASE, REQUEST_MOST)
    for left in range(attempts - 1, -1, -1):
        try:
            return await once()
        except (ProblemError, UnreachableError) as e:
            asked = 0.0
            if isinstance(e, ProblemError):
                if not e.problem.temporary:
                    raise
                asked = e.problem.retry_after
            if not left:
                raise
            await asyncio.sleep(max(wait.next(), asked))
    raise AssertionError("unreachable")


def failure(problem: Problem, doing: str) -> ProblemError:
    """Return the error for a problem of the server."""
    return _NO_ANSWERS.get(problem.type, ProblemError)(problem, doing)


class API:
    """Calls the API of one server. Calls may be carried out twice without harm, but for those that say once."""

    def __init__(
        self,
        base: str,
        *,
        key: str,
        tls: ssl.SSLContext | None,
        attempts: int,
        timeout: float,
        http: httpx.AsyncClient | None,
    ) -> None:
        self._key = key
        self._attempts = attempts
        self._timeout = timeout
        self._carrier: Carrier = HTTP(base, tls) if http is None else _given(base, http)

    async def close(self) -> None:
        """Close the connections, unless they are the caller's."""
        await self._carrier.close()

    async def call(
        self,
        method: str,
        target: str,
        *,
        query: Query | None = None,
        body: Any = None,
        content: bytes | None = None,
        content_type: str = "application/json",
        headers: Mapping[str, str] | None = None,
        once: bool = False,
        doing: str,
    ) -> Answer:
        """Carry out a request and return the successful answer, read whole.

        After failures that may pass it is tried again, unless it must not be carried out twice.
        """
        if body is not None:
            content = json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode(
                "utf-8", "surrogatepass"
            )
        sent = dict(headers or {})
        if content is not None and content_type:
            sent["Content-Type"] = content_type
        attempts = 1 if once else self._attempts
        return await retry(attempts, lambda: self._once(method, target, query, content, sent, doing))

    async def json(self, method: str, target: str, **options: Any) -> dict[str, Any]:
        """Carry out a request and return the JSON object that answers it."""
        response = await self.call(method, target, **options)
        try:
            answer = response.json()
        except ValueError as e:
            raise GodwitError(f"{options['doing']}: the answer is not JSON: {e}") from e
        if not isinstance(answer, dict):
            raise GodwitError(f"{options['doing']}: the answer is not a JSON object")
        return answer

    async def _once(
        self, method: str, target: str, query: Query | None, content: bytes | None, headers: dict[str, str], doing: str
    ) -> Answer:
        try:
            response = await self._read(method, target, query, content, headers, self._timeout)
        except TimeoutError as e:
            raise UnreachableError(f"{doing}: server did not answer in {self._timeout:g} s") from e
        except CarrierError as e:
            raise UnreachableError(f"{doing}: reach server: {e}") from e
        if not response.success:
            raise _failure(response, doing)
        return response

    async def _read(
        self,
        method: str,
        target: str,
        query: Query | None,
        content: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> Answer:
        headers = {**headers, **self._credentials()}
        return await self._carrier.ask(method, _with(target, query), headers, content, timeout=timeout)

    async def ask(
        self, target: str, *, query: Query, content: bytes, content_type: str, wait: float, doing: str
    ) -> Answer:
        """Make a request of somebody behind the server, once, and return the answer, whatever its status.

        What the server says in the place of an answer is raised.
        """
        timeout = wait + _ANSWER_SLACK
        headers = {"Content-Type": content_type} if content_type else {}
        try:
            response = await self._read("POST", target, query, content, headers, timeout)
        except TimeoutError as e:
            raise UnreachableError(f"{doing}: server did not answer in {timeout:g} s") from e
        except CarrierError as e:
            raise UnreachableError(f"{doing}: reach server: {e}") from e
        if response.status >= 400 and response.header("content-type") == "application/problem+json":
            problem = read_problem(response.status, response.content, response.header("retry-after"))
            if problem.type.startswith("/problems/"):  # the server's, not a worker's
                raise failure(problem, doing)
        return response

    def _credentials(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self._key}"} if self._key else {}

    @asynccontextmanager
    async def stream(
        self, target: str, *, query: Query | None = None, accept: str, silence: float, doing: str
    ) -> AsyncIterator[Streamed]:
        """Open an answer that stays open. It is given up after a silence of so many seconds."""
        headers = {"Accept": accept, **self._credentials()}
        try:
            async with self._carrier.stream(
                _with(target, query), headers, timeout=self._timeout, silence=silence
            ) as streamed:
                if not 200 <= streamed.status < 300:
                    raise _failure(await streamed.whole(), doing)
                yield streamed
        except TimeoutError as e:
            raise UnreachableError(f"{doing}: the server is silent") from e
        except CarrierError as e:
            raise UnreachableError(f"{doing}: {e}") from e


def _given(base: str, client: httpx.AsyncClient) -> Carrier:
    from .httpxcarrier import HTTPX  # only who has httpx can have made a client of it

    return HTTPX(base, client)


def _with(target: str, query: Query | None) -> str:
    given = {name: value for name, value in (query or {}).items() if value is not None and value != ""}
    return f"{target}?{urlencode(given)}" if given else target


def _failure(response: Answer, doing: str) -> ProblemError:
    problem = read_problem(response.status, response.content, response.header("retry-after"))
    return ProblemError(problem, doing)
