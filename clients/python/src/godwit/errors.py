"""What can go wrong."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from email.utils import parsedate_to_datetime
from time import time
from typing import Any

__all__ = [
    "BatchError",
    "FrameError",
    "GodwitError",
    "GoodbyeError",
    "NackAfter",
    "NoAnswerError",
    "NobodyServesError",
    "Problem",
    "ProblemError",
    "RefusedError",
    "RegistrationError",
    "ServeError",
    "StateError",
    "SyncTimeoutError",
    "UndecodableError",
    "UnreachableError",
]


class GodwitError(Exception):
    """The base of all errors of this package."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What the server answered instead of doing what was asked: an RFC 9457 problem."""

    status: int
    """The HTTP status."""
    type: str = ""
    """Such as "/problems/mailbox-full": stable, for programs."""
    title: str = ""
    detail: str = ""
    field: str = ""
    """Of the request, where one is to blame."""
    retry_after: float = 0.0
    """How many seconds the server asked to wait; 0: it did not say."""

    def __str__(self) -> str:
        text = self.detail or self.title or "no explanation"
        return f"server answered {self.status}: {text}"

    @property
    def temporary(self) -> bool:
        """Whether the same request may succeed later."""
        return self.status in _TEMPORARY

    @classmethod
    def from_json(cls, fields: Mapping[str, Any], *, status: int | None = None, retry_after: float = 0.0) -> Problem:
        """Read a problem as the API writes it."""
        return cls(
            status=int(fields.get("status", 0)) if status is None else status,
            type=str(fields.get("type", "")),
            title=str(fields.get("title", "")),
            detail=str(fields.get("detail", "")),
            field=str(fields.get("field", "")),
            retry_after=max(float(fields.get("retry_after") or 0), retry_after),
        )


# Everything this client retries carries its own id, so what was carried out after all is not carried out twice.
_TEMPORARY = frozenset({408, 429, 500, 502, 503, 504})


class ProblemError(GodwitError):
    """The server answered with a problem."""

    def __init__(self, problem: Problem, doing: str = "") -> None:
        super().__init__(f"{doing}: {problem}" if doing else str(problem))
        self.problem = problem

    @property
    def status(self) -> int:
        """The HTTP status."""
        return self.problem.status

    @property
    def type(self) -> str:
        """The stable name of the problem, such as "/problems/mailbox-full"."""
        return self.problem.type

    @property
    def title(self) -> str:
        """What kind of problem it is, in words."""
        return self.problem.title

    @property
    def detail(self) -> str:
        """What went wrong this time, in words."""
        return self.problem.detail

    @property
    def field(self) -> str:
        """The field of the request that is to blame, or ""."""
        return self.problem.field

    @property
    def retry_after(self) -> float:
        """How many seconds the server asked to wait; 0: it did not say."""
        return self.problem.retry_after


class UnreachableError(GodwitError):
    """The server could not be reached, or the connection to it broke."""


class BatchError(GodwitError):
    """A batch stopped in the middle. Its cause says why.

    There is a receipt for each publication: of those with a status it is known that they are stored. The others may be;
    publishing them again under the ids of their receipts does no harm.
    """

    def __init__(self, message: str, receipts: list[Any]) -> None:
        super().__init__(message)
        self.receipts = receipts


class RefusedError(GodwitError):
    """Listening ended: the server does not let this client connect, or no longer, and trying again would not help."""

    def __init__(self, reason: str, detail: str = "") -> None:
        super().__init__(f"server refused the session: {detail or reason}")
        self.reason = reason
        """Of the server's goodbye: unauthenticated, forbidden, replaced, ..."""


class GoodbyeError(GodwitError):
    """The server ended the session. Listening goes on with another."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(f"server said goodbye: {reason}")
        self.reason = reason
        self.retry_after = retry_after
        """How many seconds the server asked to wait."""


class FrameError(GodwitError):
    """The server's complaint about one frame."""

    def __init__(self, code: str, message: str, field: str = "") -> None:
        super().__init__(f"server refused a frame: {code}: {message}")
        self.code = code
        self.message = message
        self.field = field


class UndecodableError(GodwitError):
    """Something that the server sent cannot be read.

    It ends nothing: a notification is asked for again, an object is not acknowledged, anything else is passed over.
    """

    def __init__(self, reason: str, *, id: str = "", object: str = "") -> None:  # noqa: A002
        what = f"notification {id}" if id else f"object {object}" if object else "a frame of the server"
        super().__init__(f"cannot read {what}: {reason}")
        self.reason = reason
        """Names the member at fault first: "data: is nested too deeply"."""
        self.id = id
        """Of the notification; empty: it was none, or its id cannot be read either."""
        self.object = object
        """ "group/object", where it was one."""


class SubscriptionError(GodwitError):
    """The server refused patterns for good: the token does not allow them, or a session may not have so many."""

    def __init__(self, topics: tuple[str, ...], code: str, message: str) -> None:
        super().__init__(f"server refused to subscribe: {message} ({code})")
        self.topics = topics
        self.code = code
        """forbidden or too_many_topics."""


class ServeError(GodwitError):
    """The server refused patterns of subjects for good: the token does not allow them, or a session has too many."""

    def __init__(self, subjects: tuple[str, ...], code: str, message: str) -> None:
        super().__init__(f"server refused to serve: {message} ({code})")
        self.subjects = subjects
        self.code = code
        """forbidden or too_many_subjects."""


class NobodyServesError(ProblemError):
    """Nobody was asked: nobody serves the subject, all who do are busy, or the recipient is not connected.

    Asking again is harmless.
    """


class NoAnswerError(ProblemError):
    """No answer came in time, or the worker's connection ended first. It may have done what it was asked."""


class RegistrationError(GodwitError):
    """The server refused a registration for good."""

    def __init__(self, name: str, code: str) -> None:
        super().__init__(f"server refused the registration for {name}: {code}")
        self.object = name
        self.code = code


class StateError(GodwitError):
    """A file with the state of registrations, or with the ids that were seen, cannot be used."""


class SyncTimeoutError(GodwitError, TimeoutError):
    """A sync was not complete in time. What had changed until then was handled and is in `changed`."""

    def __init__(self, message: str, changed: list[Any]) -> None:
        super().__init__(message)
        self.changed = changed


class NackAfter(Exception):  # noqa: N818 - it is raised to ask for something, like StopIteration
    """Raised by a handler: redeliver the notification after this time, 0 s to 24 h.

    A reason says that it cannot be handled: five times with one, and the server sets it aside as failed.
    """

    def __init__(self, after: timedelta | float, reason: str = "") -> None:
        seconds = after.total_seconds() if isinstance(after, timedelta) else float(after)
        super().__init__(f"redeliver after {seconds:g} s")
        self.after = seconds
        self.reason = reason


def retry_after(header: str | None) -> float:
    """Read a Retry-After header (RFC 9110, section 10.2.3): seconds, or a date."""
    if not header:
        return 0.0
    if header.isascii() and header.isdigit():
        return min(float(header), 2.0**31)
    try:
        return max(parsedate_to_datetime(header).timestamp() - time(), 0.0)
    except ValueError:
        return 0.0
