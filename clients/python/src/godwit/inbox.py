"""What people see of their notifications."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Self

from .publication import Action

__all__ = ["InboxCounts", "InboxItem", "InboxPage"]


def _moment(value: str | None) -> datetime | None:
    return None if value is None else datetime.fromisoformat(value)


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxCounts:
    """The counts of an inbox."""

    unseen: int = 0
    """Items that came since the list was last opened."""
    unread: int = 0
    total: int = 0
    """Archived ones too."""
    categories: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """Unseen and unread items of each category that has items; the empty name is of those without one."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read an answer."""
        return cls(
            unseen=fields["unseen"],
            unread=fields["unread"],
            total=fields["total"],
            categories={name: (c["unseen"], c["unread"]) for name, c in fields["categories"].items()},
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxItem:
    """A kept notification."""

    id: str
    title: str = ""
    body: str = ""
    category: str = ""
    data: bytes = b""
    """JSON, text or bytes, as content_type says."""
    content_type: str = ""
    actions: Sequence[Action] = ()
    created_at: datetime
    kept_until: datetime
    seen_at: datetime | None = None
    """None: not yet; so are the next two."""
    read_at: datetime | None = None
    archived_at: datetime | None = None
    pinned: bool = False
    answered: str = ""
    """Id of the action that was chosen; empty: none was."""
    answered_at: datetime | None = None

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read an item of an answer."""
        data, content_type = _data(fields)
        return cls(
            id=fields["id"],
            title=fields["title"],
            body=fields["body"],
            category=fields["category"],
            data=data,
            content_type=content_type,
            actions=tuple(Action(a["id"], a["title"], a.get("url", "")) for a in fields["actions"]),
            created_at=datetime.fromisoformat(fields["created_at"]),
            kept_until=datetime.fromisoformat(fields["kept_until"]),
            seen_at=_moment(fields["seen_at"]),
            read_at=_moment(fields["read_at"]),
            archived_at=_moment(fields["archived_at"]),
            pinned=fields["pinned"],
            answered=fields.get("answered") or "",
            answered_at=_moment(fields.get("answered_at")),
        )


def _data(fields: Mapping[str, Any]) -> tuple[bytes, str]:
    content_type = fields.get("content_type", "")
    if "data_base64" in fields:
        return base64.b64decode(fields["data_base64"]), content_type
    if "data" not in fields:
        return b"", content_type
    if content_type and isinstance(fields["data"], str):
        return fields["data"].encode(), content_type
    return json.dumps(
        fields["data"], ensure_ascii=False, separators=(",", ":")
    ).encode(), content_type or "application/json"


@dataclass(frozen=True, slots=True, kw_only=True)
class InboxPage(InboxCounts):
    """A page of an inbox, newest first, with the counts of the whole inbox in the same moment."""

    items: Sequence[InboxItem] = ()
    until: str = ""
    """What this page and those before it have listed, for mark_inbox_all."""
    next_cursor: str = ""
    """Empty: this is the last page."""

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read an answer."""
        counts = InboxCounts.from_json(fields)
        return cls(
            unseen=counts.unseen,
            unread=counts.unread,
            total=counts.total,
            categories=counts.categories,
            items=tuple(InboxItem.from_json(item) for item in fields["items"]),
            until=fields["until"],
            next_cursor=fields["next_cursor"] or "",
        )
