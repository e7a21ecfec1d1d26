"""Which notifications came here, so that one which comes by several ways is shown once."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from .errors import StateError
from .state import replace_file

__all__ = ["Deduplicator"]

# How many notifications are known; api/vectors/push.json says so for all languages.
_REMEMBERED = 500

# When a settled id may be published anew: the server knows its duplicates for as long.
_REUSE = timedelta(hours=24)

_FORMAT = 1


class Deduplicator:
    """Remembers the last 500 notifications that came here, so that one which comes live and by push is shown once.

    Ask `seen` before showing and call `shown` afterwards: a program that is killed in between shows it after all. It is
    in the file when a call returns; without one it is kept in memory. The file belongs to one recipient and one program
    at a time. One that cannot be understood is as good as none: at worst something is shown twice.
    """

    def __init__(
        self,
        filename: str | os.PathLike[str] | None = None,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._path = None if filename is None else Path(filename)
        self._now = now
        self._lock = threading.Lock()
        # When each was settled; None: it is shown. The newest is last.
        self._ids: dict[str, datetime | None] = self._load()

    def seen(self, id: str) -> bool:  # noqa: A002
        """Whether it is shown, or was acknowledged or recalled, and so is not to be shown."""
        with self._lock:
            return self._known(id)

    def shown(self, id: str) -> None:  # noqa: A002
        """Keep that it is shown."""
        with self._lock:
            if not self._known(id):
                self._keep(id, None)

    def settled(self, id: str) -> bool:  # noqa: A002
        """Keep that it was acknowledged or recalled, even if it has not come yet.

        True: it was shown until now, so take it away, and acknowledge it if it was not recalled.
        """
        with self._lock:
            known = self._known(id)
            if known and self._ids[id] is not None:
                return False
            self._keep(id, self._now())
            return known

    def held(self) -> list[str]:
        """Return the ids that are shown: what `held` of a listener wants to know."""
        with self._lock:
            return [name for name, settled in self._ids.items() if settled is None]

    def _known(self, name: str) -> bool:
        if name not in self._ids:
            return False
        settled = self._ids[name]
        return settled is None or self._now() < settled + _REUSE

    def _keep(self, name: str, settled: datetime | None) -> None:
        ids = {other: at for other, at in self._ids.items() if other != name}
        ids[name] = settled
        ids = dict(list(ids.items())[-_REMEMBERED:])
        if self._path is not None:
            try:
                replace_file(
                    self._path, json.dumps({"format": _FORMAT, "ids": [_write(*e) for e in ids.items()]}) + "\n"
                )
            except OSError as e:
                raise StateError(f"write ids that were seen: {e}") from e
        self._ids = ids

    def _load(self) -> dict[str, datetime | None]:
        if self._path is None:
            return {}
        try:
            fields = json.loads(self._path.read_bytes())
            later = fields["format"] > _FORMAT
            ids = dict(map(_read, fields["ids"]))
        except FileNotFoundError:
            return {}
        except OSError as e:
            raise StateError(f"read ids that were seen: {e}") from e
        except (ValueError, KeyError, TypeError):
            return {}
        if later:
            raise StateError(f"read ids that were seen: {self._path} was written by a later version of this program")
        return dict(list(ids.items())[-_REMEMBERED:])


def _write(name: str, settled: datetime | None) -> dict[str, Any]:
    if settled is None:
        return {"id": name}
    return {"id": name, "settled": settled.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")}


def _read(entry: dict[str, Any]) -> tuple[str, datetime | None]:
    name, settled = entry["id"], entry.get("settled")
    if not isinstance(name, str):
        raise TypeError("an id is no text")
    if settled is None:
        return name, None
    at = datetime.fromisoformat(settled)
    return name, at if at.tzinfo else at.replace(tzinfo=UTC)
