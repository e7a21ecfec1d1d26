"""The observable of one object."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..extras import needs
from ..objects import ObjectVersion

try:
    import reactivex
    from reactivex import abc
    from reactivex.disposable import Disposable
except ImportError as e:
    raise needs("notify", "godwit.notify", e) from e

__all__ = ["Feed", "Notification"]

log = logging.getLogger("godwit")


@dataclass(frozen=True, slots=True, kw_only=True)
class Notification:
    """An object is at a version, or nobody can say at which."""

    group: str
    object: str
    version: str
    """A whole number as text, which only grows. If unknown, the next version will be above it; empty: none yet."""
    unknown: bool = False
    """The version is not known: fetch the object from where it lives."""
    payload: bytes = b""
    content_type: str = ""

    def json(self) -> Any:
        """Return the payload as the JSON value it is; None where there is none."""
        return json.loads(self.payload) if self.payload else None

    @classmethod
    def of(cls, v: ObjectVersion) -> Notification:
        """Make the notification of a version."""
        return cls(
            group=v.group,
            object=v.object,
            version=str(v.version) if v.version else "",
            unknown=v.unknown,
            payload=v.payload,
            content_type=v.content_type,
        )


class Feed:
    """Hands the versions of one object to its subscribers. It may be used from any thread."""

    def __init__(self, subscribed: Callable[[], None]) -> None:
        self._subscribed = subscribed
        self._observers: list[abc.ObserverBase[Notification]] = []
        self._lock = threading.Lock()
        self._ended = False
        self.observable: reactivex.Observable[Notification] = reactivex.Observable(self._subscribe)

    @property
    def watched(self) -> bool:
        """Whether anybody is subscribed."""
        return bool(self._observers)

    def _subscribe(
        self, observer: abc.ObserverBase[Notification], _scheduler: abc.SchedulerBase | None = None
    ) -> abc.DisposableBase:
        with self._lock:
            ended = self._ended
            if not ended:
                self._observers.append(observer)
        if ended:
            observer.on_completed()
            return Disposable()
        self._subscribed()
        return Disposable(lambda: self._leave(observer))

    def _leave(self, observer: abc.ObserverBase[Notification]) -> None:
        with self._lock:
            if observer in self._observers:
                self._observers.remove(observer)

    def publish(self, n: Notification) -> bool:
        """Hand a version to all subscribers, and report whether all took it.

        One that raises does not keep it from the others.
        """
        taken = True
        for observer in list(self._observers):
            try:
                observer.on_next(n)
            except Exception:
                log.exception("subscriber failed", extra={"object": n.object})
                taken = False
        return taken

    def end(self, error: Exception | None = None) -> None:
        """Tell subscribers that nothing more will come."""
        with self._lock:
            self._ended = True
            observers, self._observers = self._observers, []
        for observer in observers:
            try:
                if error is None:
                    observer.on_completed()
                else:
                    observer.on_error(error)
            except Exception:
                log.exception("subscriber failed")
