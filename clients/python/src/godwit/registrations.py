"""What a client is registered for, and how client and server come to agree on it.

The keeper knows nothing of connections or time: frames of the server go in, frames for the server come out. What the
program wants is the desired set; its digest is compared with that of the server's set at every welcome and heartbeat.
Equal digests settle whatever is pending without a further word, except that the client asks for objects of which it
knows no version, by registering them again. Where digests differ, the client sends its whole set with `reset`, which
the server swaps in at once, so nothing wanted is unregistered for a moment.

A client that has lost its state does not send a reset before the first heartbeat: until then its program is still
registering, and the server may well know the very set that it is going to want.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import Enum, auto

from .digest import format_digest, object_hash
from .frames import ClientFrame, ObjectAck, ObjectFrame, Register, Registered, RegistrationFailed, Unregister
from .state import Registration, RegistrationStatus
from .values import check_name

__all__ = ["MAX_OBJECTS_PER_FRAME", "Change", "Keeper", "Verdict"]

# How many names one frame carries: with names of 128 bytes, below 64 KB.
MAX_OBJECTS_PER_FRAME = 256

_PENDING = RegistrationStatus.PENDING_REGISTRATION
_REGISTERED = RegistrationStatus.REGISTERED
_LEAVING = RegistrationStatus.PENDING_UNREGISTRATION


class Verdict(Enum):
    """What to do with an object frame."""

    DELIVER = auto()
    """Give it to the program, then call `handled`."""
    REPEAT = auto()
    """The program knows: it has been acknowledged again."""
    IGNORE = auto()
    """The program does not want the object; the digests tell the server in time."""


@dataclass(frozen=True, slots=True)
class Change:
    """A registration reached another status, or failed."""

    object: str
    status: RegistrationStatus | None
    """None: it is gone, by the program's wish or by a failure."""
    code: str = ""
    """Why the server refused it; empty: it did not."""
    transient: bool = False
    """The server refused it for now: it is tried again."""


@dataclass(slots=True)
class _Link:
    """What only lasts as long as a connection."""

    unsent: dict[str, None] = field(default_factory=dict)
    asked: set[str] = field(default_factory=set)  # registered on this connection: the server sends what it has
    strays: set[str] = field(default_factory=set)  # unregistered although this client never asked for them
    reset: bool = False
    agreed: bool = False  # the server's digest was that of the desired set, and nothing has changed since
    moved: bool = True  # something was sent since the last ping


class Keeper:
    """The registrations of one client in one group. Safe for use by several threads."""

    def __init__(self, group: str, known: Mapping[str, Registration] | None = None) -> None:
        self.group = group
        self._entries: dict[str, Registration] = dict(known or {})
        self._sum = sum(object_hash(group, name) for name, r in self._entries.items() if r.desired)
        self._fresh = known is None
        self._link: _Link | None = None
        self._delayed: set[str] = set()
        self._acks: dict[str, int] = {}
        self._changes: list[Change] = []
        self._lock = threading.RLock()
        self.revision = 0
        """Grows with every change of what is worth keeping."""

    @property
    def digest(self) -> str:
        """The digest of the desired set."""
        with self._lock:
            return format_digest(self._sum)

    @property
    def connected(self) -> bool:
        """Whether the server has summarised what it knows on this connection."""
        return self._link is not None

    @property
    def agreed(self) -> bool:
        """Whether the server is known to have exactly what the program wants."""
        with self._lock:
            return self._link is not None and self._link.agreed

    @property
    def delayed(self) -> bool:
        """Whether there is something to try again later."""
        return bool(self._delayed)

    def registrations(self) -> dict[str, Registration]:
        """Return all registrations by object."""
        with self._lock:
            return dict(self._entries)

    def get(self, name: str) -> Registration | None:
        """Return the registration for an object."""
        return self._entries.get(name)

    def settle(self) -> None:
        """Declare the desired set complete, so that a mismatch is resolved at once."""
        self._fresh = False

    # The program's wishes.

    def register(self, names: Iterable[str]) -> bool:
        """Want these objects. Return whether anything changed."""
        with self._lock:
            wanted = [self._want(check_name("object", name)) for name in names]
            return any(wanted)

    def unregister(self, names: Iterable[str]) -> bool:
        """No longer want these objects. Return whether anything changed."""
        with self._lock:
            dropped = [self._drop(name) for name in names]
            return any(dropped)

    def _want(self, name: str) -> bool:
        entry = self._entries.get(name)
        if entry is not None and entry.desired:
            return False
        self._sum += object_hash(self.group, name)
        self._set(name, Registration(_PENDING))  # what was known of it belongs to the time before
        self._send(name)
        return True

    def _drop(self, name: str) -> bool:
        entry = self._entries.get(name)
        if entry is None or not entry.desired:
            return False
        self._sum -= object_hash(self.group, name)
        self._set(name, replace(entry, status=_LEAVING))
        self._acks.pop(name, None)
        self._send(name)
        return True

    def _set(self, name: str, entry: Registration) -> None:
        before = self._entries.get(name)
        self._entries[name] = entry
        self.revision += 1
        if before is None or before.status is not entry.status:
            self._changes.append(Change(name, entry.status))

    def _remove(self, name: str, code: str = "") -> None:
        if self._entries.pop(name, None) is not None:
            self.revision += 1
            self._changes.append(Change(name, None, code))
        self._delayed.discard(name)
        self._acks.pop(name, None)

    def _send(self, name: str) -> None:
        self._delayed.discard(name)
        if self._link is not None:
            self._link.unsent[name] = None
            self._link.agreed = False

    # The server's messages.

    def welcomed(self, digest: str) -> None:
        """Take the server's summary, with which every connection begins."""
        with self._lock:
            self._link = _Link()
            self._acks.clear()  # the server sends again what it has no acknowledgement of
            self._delayed.clear()
            if digest == self.digest:
                self._agree()
            elif self._fresh or not digest:  # it cannot say yet: a pong will
                self._link.unsent = dict.fromkeys(n for n, r in self._entries.items() if r.status is not _REGISTERED)
            else:
                self._link.reset = True

    def disconnected(self) -> None:
        """Forget what only lasts as long as a connection."""
        with self._lock:
            self._link = None

    def ping_digest(self) -> str:
        """Return the digest for a ping; its pong will show whether both agree."""
        with self._lock:
            if self._link is not None:
                self._link.moved = bool(self._link.unsent) or self._link.reset
                self._link.strays.clear()
            self._fresh = False
            return self.digest

    def ponged(self, digest: str) -> None:
        """Compare the server's digest with the desired set."""
        with self._lock:
            if self._link is None or not digest:
                return
            if digest == self.digest:
                self._agree()
                return
            self._link.agreed = False
            if not self._link.moved and not self._delayed:
                self._link.reset = True

    def registered(self, frame: Registered) -> None:
        """Take a confirmation. One that contradicts the desired set is a discrepancy to resolve, not to accept."""
        with self._lock:
            if self._link is None:
                return
            if frame.digest == self.digest:
                self._agree()
                return
            for name in self._ours(frame):
                entry = self._entries.get(name)
                if entry is None:
                    if name not in self._link.strays:  # once: the answer to it may name the object again
                        self._link.strays.add(name)
                        self._link.unsent[name] = None
                elif entry.status is _PENDING and name not in self._link.unsent:
                    self._set(name, replace(entry, status=_REGISTERED))

    def _ours(self, frame: Registered | RegistrationFailed) -> tuple[str, ...]:
        return frame.objects if frame.group in ("", self.group) else ()

    def failed(self, frame: RegistrationFailed) -> None:
        """Take a refusal: for good, which leaves both sets without it, or for now."""
        with self._lock:
            for name in self._ours(frame):
                entry = self._entries.get(name)
                if entry is None:
                    continue
                if not frame.transient:
                    if entry.desired:
                        self._sum -= object_hash(self.group, name)
                    self._remove(name, frame.code)
                    continue
                if entry.status is _REGISTERED:
                    entry = replace(entry, status=_PENDING)
                    self._entries[name] = entry
                    self.revision += 1
                self._delayed.add(name)
                self._changes.append(Change(name, entry.status, frame.code, transient=True))

    def retry(self) -> None:
        """Try again what was refused for now."""
        with self._lock:
            if self._link is not None:
                self._link.unsent.update(dict.fromkeys(self._delayed))
                self._delayed.clear()

    def _agree(self) -> None:
        """Both sets are equal: nothing is pending any more."""
        assert self._link is not None
        self._fresh = False
        self._link.reset = False
        self._link.agreed = True
        self._link.unsent.clear()
        self._delayed.clear()
        for name, entry in list(self._entries.items()):
            if entry.status is _LEAVING:
                self._remove(name)
                continue
            if entry.status is _PENDING:
                self._set(name, replace(entry, status=_REGISTERED))
            if not (entry.version or entry.unknown or name in self._link.asked):
                self._link.unsent[name] = None

    # Versions.

    def received(self, frame: ObjectFrame) -> Verdict:
        """Say what to do with an object frame. Versions that the program sees only grow."""
        with self._lock:
            entry = self._entries.get(frame.object)
            if entry is None or not entry.desired or frame.group not in ("", self.group):
                return Verdict.IGNORE
            if frame.unknown or frame.version > entry.version:
                return Verdict.DELIVER
            self._acks[frame.object] = entry.version  # the first acknowledgement was lost
            return Verdict.REPEAT

    def handled(self, name: str, version: int, unknown: bool) -> None:
        """Note what the program has handled, and acknowledge it. An older version never undoes a newer one."""
        with self._lock:
            entry = self._entries.get(name)
            if entry is None:
                return
            if version >= entry.version:
                entry = replace(entry, version=version, unknown=unknown)
                self._entries[name] = entry
                self.revision += 1
            if entry.desired and not unknown:  # what is unknown needs none
                self._acks[name] = entry.version

    # What to send.

    def take(self) -> list[ClientFrame]:
        """Return the frames to send now: nothing before the server has summarised what it knows."""
        with self._lock:
            link = self._link
            if link is None:
                return []
            frames = self._reset() if link.reset else self._deltas()
            link.moved = link.moved or bool(frames)
            frames += [ObjectAck(name, version) for name, version in self._acks.items()]
            self._acks.clear()
            return frames

    def _reset(self) -> list[ClientFrame]:
        assert self._link is not None
        self._link.reset = False
        self._link.unsent.clear()
        names = sorted(name for name, r in self._entries.items() if r.desired)
        self._link.asked.update(names)
        chunks = _chunks(names) or [()]
        last = len(chunks) - 1
        return [Register(chunk, reset=True, more=i < last) for i, chunk in enumerate(chunks)]

    def _deltas(self) -> list[ClientFrame]:
        assert self._link is not None
        if not self._link.unsent:
            return []
        wanted: list[str] = []
        unwanted: list[str] = []
        for name in self._link.unsent:
            entry = self._entries.get(name)
            (wanted if entry is not None and entry.desired else unwanted).append(name)
        self._link.unsent.clear()
        self._link.asked.difference_update(unwanted)
        self._link.asked.update(wanted)
        return [*map(Unregister, _chunks(unwanted)), *map(Register, _chunks(wanted))]

    def take_changes(self) -> list[Change]:
        """Return what happened to registrations since the last call."""
        with self._lock:
            changes, self._changes = self._changes, []
            return changes


def _chunks(names: list[str]) -> list[tuple[str, ...]]:
    size = MAX_OBJECTS_PER_FRAME
    return [tuple(names[i : i + size]) for i in range(0, len(names), size)]
