"""Where registrations are kept: in memory, or in a file that survives a crash at any moment."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from .errors import StateError

__all__ = ["Registration", "RegistrationStatus", "State", "replace_file"]

log = logging.getLogger("godwit")

_FORMAT = 1


class RegistrationStatus(StrEnum):
    """How far a registration is."""

    PENDING_REGISTRATION = "pending registration"
    REGISTERED = "registered"
    PENDING_UNREGISTRATION = "pending unregistration"


@dataclass(frozen=True, slots=True)
class Registration:
    """One object's registration, and the newest version that was handled."""

    status: RegistrationStatus
    version: int = 0
    """0: none yet."""
    unknown: bool = False
    """The server said last that the version is unknown; `version` is the floor of what can come."""

    @property
    def desired(self) -> bool:
        """Whether the program wants it."""
        return self.status is not RegistrationStatus.PENDING_UNREGISTRATION


class State:
    """Keeps registrations in memory or in a file.

    The file is replaced as a whole (written beside it, synced, renamed), so it is complete at any moment. It belongs to
    one client: another's is refused. A file that cannot be read is moved aside and the client starts without state,
    which the server makes good.
    """

    def __init__(self, filename: str | os.PathLike[str] | None = None, *, memory: bool = False) -> None:
        if (filename is None) != memory:
            raise ValueError("give either a filename or memory=True")
        self._path = None if filename is None else Path(filename)
        self._owner: dict[str, str] | None = None
        self._memory: dict[str, Registration] | None = None
        self._saved: str | None = None
        self._lock = threading.Lock()

    def __repr__(self) -> str:
        return "State(memory=True)" if self._path is None else f"State(filename={str(self._path)!r})"

    def load(self, **owner: str) -> dict[str, Registration] | None:
        """Return what was kept for this client, named by its app, recipient, group and device; None: nothing was."""
        if self._owner not in (None, owner):
            raise StateError(f"{self!r} is used by another client: {self._owner}")
        self._owner = owner
        if self._path is None:
            return self._memory
        try:
            text = self._path.read_text(encoding="utf-8")
        except FileNotFoundError:
            return None
        except OSError as e:
            raise StateError(f"read state of registrations: {e}") from e
        except UnicodeDecodeError as e:
            self._start_anew(e)
            return None
        try:
            fields = json.loads(text)
            if fields["format"] != _FORMAT:
                raise StateError(f"{self._path} has format {fields['format']}, which this version does not know")
            objects = {name: _read(entry) for name, entry in fields["objects"].items()}
            found = {name: fields[name] for name in owner}
        except (ValueError, KeyError, TypeError, AttributeError) as e:
            self._start_anew(e)
            return None
        if found != owner:
            raise StateError(f"{self._path} belongs to another client: {found}, not {owner}")
        self._saved = text
        return objects

    def _start_anew(self, cause: Exception) -> None:
        assert self._path is not None
        aside = self._path.with_name(self._path.name + ".bad")
        log.warning("state of registrations cannot be read", extra={"moved_to": str(aside), "reason": repr(cause)})
        with contextlib.suppress(OSError):
            self._path.replace(aside)

    def save(self, registrations: Mapping[str, Registration]) -> None:
        """Keep these registrations. With a file they are on disk when this returns."""
        with self._lock:
            if self._path is None:
                self._memory = dict(registrations)
                return
            objects = {name: _write(r) for name, r in sorted(registrations.items())}
            text = json.dumps({"format": _FORMAT, **(self._owner or {}), "objects": objects}, indent=1) + "\n"
            if text == self._saved:
                return
            try:
                replace_file(self._path, text)
            except OSError as e:
                raise StateError(f"write state of registrations: {e}") from e
            self._saved = text


def _read(entry: Mapping[str, Any]) -> Registration:
    status = RegistrationStatus(entry["status"])
    return Registration(status, int(entry.get("version", 0)), bool(entry.get("unknown", False)))


def _write(r: Registration) -> dict[str, Any]:
    entry: dict[str, Any] = {"status": r.status.value}
    if r.version:
        entry["version"] = str(r.version)
    if r.unknown:
        entry["unknown"] = True
    return entry


def replace_file(path: Path, text: str) -> None:
    """Replace a file as a whole: after a crash there is the old one or the new one."""
    beside = path.with_name(path.name + ".new")
    with beside.open("w", encoding="utf-8") as f:
        f.write(text)
        f.flush()
        os.fsync(f.fileno())
    beside.replace(path)
    if os.name == "posix":  # the rename is on disk once the folder is
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
