"""Campaigns, endpoints and channels of the blocking client."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from .campaigns import AsyncCampaign, CampaignDelivery, CampaignFields, CampaignStatus
from .endpoints import AsyncChannels, AsyncEndpoints, Endpoint
from .portal import Portal

__all__ = ["Campaign", "Channels", "Endpoints"]

Json = Mapping[str, Any]


class Campaign:
    """One campaign. A new one is made by the first method that needs it to be there; see AsyncCampaign."""

    def __init__(self, portal: Portal, campaign: AsyncCampaign) -> None:
        self._portal = portal
        self._async = campaign

    @property
    def id(self) -> str:
        """Its id; empty as long as it has not been made."""
        return self._async.id

    def create(self) -> str:
        """Make it and return its id. Again changes nothing."""
        return self._portal.call(self._async.create())

    def status(self) -> CampaignStatus:
        """Return how it stands."""
        return self._portal.call(self._async.status())

    def start(self) -> CampaignStatus:
        """Let it go, at once or at its time."""
        return self._portal.call(self._async.start())

    def pause(self) -> CampaignStatus:
        """Stop it where it is."""
        return self._portal.call(self._async.pause())

    def resume(self) -> CampaignStatus:
        """Let it go on."""
        return self._portal.call(self._async.resume())

    def cancel(self) -> CampaignStatus:
        """End it: what is pending is not sent."""
        return self._portal.call(self._async.cancel())

    def recall(self) -> CampaignStatus:
        """Take back what was sent, as far as the channels can; `progress` says when that is done."""
        return self._portal.call(self._async.recall())

    def correct(
        self,
        content: Mapping[str, Any] | None = None,
        *,
        template: str | None = None,
        variables: Mapping[str, str | float | bool] | None = None,
    ) -> CampaignStatus:
        """Make the messages that were sent over Telegram say this instead; `progress` says when that is done."""
        return self._portal.call(self._async.correct(content, template=template, variables=variables))

    def decide(self, variant: str) -> CampaignStatus:
        """End the comparison of its variants: the rest of the audience gets this one, A or B."""
        return self._portal.call(self._async.decide(variant))

    def clone(self, name: str = "") -> Campaign:
        """Make a draft with its message, audience and pace."""
        return Campaign(self._portal, self._portal.call(self._async.clone(name)))

    def test(self, endpoints: Sequence[str]) -> list[dict[str, Any]]:
        """Send it to some endpoints at once, without counting it; see AsyncCampaign.test."""
        return self._portal.call(self._async.test(endpoints))

    def revise(self, fields: CampaignFields, *, revision: str = "") -> CampaignStatus:
        """Replace what it is to be, as long as it has not begun; see AsyncCampaign.revise."""
        return self._portal.call(self._async.revise(fields, revision=revision))

    def delete(self, *, revision: str = "") -> None:
        """Remove it and its report, or only the given revision."""
        self._portal.call(self._async.delete(revision=revision))

    def progress(self) -> Iterator[CampaignStatus]:
        """Yield how it stands, now and whenever that has changed, until it has ended."""
        return self._portal.iterate(self._async.progress())

    def deliveries(self, outcome: str | None = None) -> Iterator[CampaignDelivery]:
        """Go through what became of each message, of one outcome or of all."""
        return self._portal.iterate(self._async.deliveries(outcome))


class Endpoints:
    """The endpoints of an app; see AsyncEndpoints."""

    def __init__(self, portal: Portal, endpoints: AsyncEndpoints) -> None:
        self._portal = portal
        self._async = endpoints

    def register(
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
        """Have an endpoint be there and return its id."""
        work = self._async.register(
            channel, address, recipient=recipient, tags=tags, attributes=attributes, locale=locale, timezone=timezone
        )
        return self._portal.call(work)

    def get(self, id: str) -> Endpoint:  # noqa: A002
        """Return one endpoint."""
        return self._portal.call(self._async.get(id))

    def list(
        self,
        *,
        channel: str = "",
        recipient: str = "",
        tag: str = "",
        status: str = "",
        where: str = "",
        segment: str = "",
    ) -> Iterator[Endpoint]:
        """Go through the endpoints that all of this holds for."""
        work = self._async.list(
            channel=channel, recipient=recipient, tag=tag, status=status, where=where, segment=segment
        )
        return self._portal.iterate(work)

    def change(self, id: str, **changes: Any) -> Endpoint:  # noqa: A002
        """Change what is named, for example add_tags=["vip"], and return what it is then."""
        return self._portal.call(self._async.change(id, **changes))

    def delete(self, id: str) -> None:  # noqa: A002
        """Delete one."""
        self._portal.call(self._async.delete(id))

    def count(self, **audience: Any) -> int:
        """Return how many active endpoints an audience has."""
        return self._portal.call(self._async.count(**audience))


class Channels:
    """The channels of an app; see AsyncChannels."""

    def __init__(self, portal: Portal, channels: AsyncChannels) -> None:
        self._portal = portal
        self._async = channels

    def list(self) -> Sequence[Json]:
        """Return the channels, also those that are not set up."""
        return self._portal.call(self._async.list())

    def set(self, channel: str, **settings: Any) -> None:
        """Set a channel up."""
        self._portal.call(self._async.set(channel, **settings))

    def test(self, channel: str, address: Json | None = None) -> Json:
        """Try a channel's credentials or send a message to an address."""
        return self._portal.call(self._async.test(channel, address))

    def delete(self, channel: str) -> None:
        """Forget a channel's settings and credentials."""
        self._portal.call(self._async.delete(channel))
