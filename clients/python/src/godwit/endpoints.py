"""Endpoints, which are the push addresses of an app, and the channels that reach them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .http import API, path

__all__ = ["AsyncChannels", "AsyncEndpoints", "Endpoint"]

Json = Mapping[str, Any]

# Of one page of a list.
_PAGE = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Endpoint:
    """A push address and what is known of it."""

    id: str
    channel: str
    address: Json
    recipient: str = ""
    """Empty: an anonymous subscriber."""
    tags: Sequence[str] = ()
    attributes: Json
    locale: str = ""
    timezone: str = ""
    status: str = ""
    """active or disabled"""
    disabled_reason: str = ""

    @classmethod
    def from_json(cls, fields: Json) -> Endpoint:
        """Read an endpoint as the API writes it."""
        return cls(
            id=fields["id"],
            channel=fields["channel"],
            address=fields["address"],
            recipient=fields.get("recipient") or "",
            tags=tuple(fields.get("tags") or ()),
            attributes=fields.get("attributes") or {},
            locale=fields.get("locale") or "",
            timezone=fields.get("timezone") or "",
            status=fields["status"],
            disabled_reason=fields.get("disabled_reason") or "",
        )


class AsyncEndpoints:
    """The endpoints of an app."""

    def __init__(self, api: API) -> None:
        self._api = api

    async def register(
        self,
        channel: str,
        address: Json | None = None,
        *,
        recipient: str = "",
        tags: Sequence[str] = (),
        attributes: Json | None = None,
        locale: str = "",
        timezone: str = "",
    ) -> str:
        """Have an endpoint be there and return its id. One of this address is renewed by what is given.

        address: as the channel defines it, for example {"chat_id": 42}.
        """
        given = {
            "channel": channel,
            "address": address,
            "recipient": recipient,
            "tags": list(tags),
            "attributes": attributes,
            "locale": locale,
            "timezone": timezone,
        }
        body = {name: value for name, value in given.items() if value}
        return str((await self._api.json("POST", path("v1", "endpoints"), body=body, doing="register endpoint"))["id"])

    async def get(self, id: str) -> Endpoint:  # noqa: A002
        """Return one endpoint."""
        return Endpoint.from_json(await self._api.json("GET", path("v1", "endpoints", id), doing=f"read endpoint {id}"))

    async def list(
        self,
        *,
        channel: str = "",
        recipient: str = "",
        tag: str = "",
        status: str = "",
        where: str = "",
        segment: str = "",
    ) -> AsyncGenerator[Endpoint, None]:
        """Go through the endpoints that all of this holds for, in the order in which they were registered."""
        query = {
            "channel": channel,
            "recipient": recipient,
            "tag": tag,
            "status": status,
            "where": where,
            "segment": segment,
        }
        cursor: str | None = None
        while True:
            page = await self._api.json(
                "GET",
                path("v1", "endpoints"),
                query={**query, "limit": _PAGE, "cursor": cursor},
                doing="list endpoints",
            )
            for item in page["items"]:
                yield Endpoint.from_json(item)
            cursor = page.get("next_cursor")
            if not cursor:
                return

    async def change(self, id: str, **changes: Any) -> Endpoint:  # noqa: A002
        """Change what is named, for example add_tags=["vip"] or status="disabled", and return what it is then."""
        answer = await self._api.json("PATCH", path("v1", "endpoints", id), body=changes, doing=f"change endpoint {id}")
        return Endpoint.from_json(answer)

    async def delete(self, id: str) -> None:  # noqa: A002
        """Delete one."""
        await self._api.call("DELETE", path("v1", "endpoints", id), doing=f"delete endpoint {id}")

    async def count(self, **audience: Any) -> int:
        """Count an audience's active endpoints: channels, recipients, tags_any, tags_all, where, segment."""
        answer = await self._api.json("POST", path("v1", "audience", "count"), body=audience, doing="count audience")
        return int(answer["count"])


class AsyncChannels:
    """The channels of an app. Changing them needs role admin."""

    def __init__(self, api: API) -> None:
        self._api = api

    async def list(self) -> Sequence[Json]:
        """Return the channels, also those that are not set up: channel, enabled, settings, credentials."""
        answer = await self._api.json("GET", path("v1", "channels"), doing="list channels")
        return tuple(answer["items"])

    async def set(self, channel: str, **settings: Any) -> None:
        """Set a channel up; docs/guides/channels.md has the settings of each."""
        await self._api.json("PUT", path("v1", "channels", channel), body=settings, doing=f"set up channel {channel}")

    async def test(self, channel: str, address: Json | None = None) -> Json:
        """Try a channel's credentials or send a message to an address, and return ok, outcome and detail."""
        body = {} if address is None else {"address": address}
        return await self._api.json(
            "POST", path("v1", "channels", channel, "test"), body=body, doing=f"test channel {channel}"
        )

    async def delete(self, channel: str) -> None:
        """Forget a channel's settings and credentials."""
        await self._api.call("DELETE", path("v1", "channels", channel), doing=f"delete channel {channel}")
