"""A bounded memory of ids."""

from __future__ import annotations

from collections import OrderedDict

__all__ = ["REMEMBERED_IDS", "IdSet"]

# How many handled ids a listener keeps so as to know a redelivery when it sees one. A server sends at most a window of
# 1,024 unacknowledged, so this is several windows.
REMEMBERED_IDS = 8192


class IdSet:
    """Remembers the newest ids that were put in, up to a number."""

    def __init__(self, size: int = REMEMBERED_IDS) -> None:
        self._size = size
        self._ids: OrderedDict[str, None] = OrderedDict()

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, name: str) -> None:
        """Remember an id, and forget the oldest if there are too many."""
        self._ids.setdefault(name)
        if len(self._ids) > self._size:
            self._ids.popitem(last=False)
