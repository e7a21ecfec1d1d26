"""Campaigns: one message to an audience."""

from __future__ import annotations

import asyncio
import json
import secrets
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, TypedDict

from .http import API, path
from .values import Duration, format_duration, format_time, parse_time

__all__ = ["AsyncCampaign", "CampaignDelivery", "CampaignFields", "CampaignStatus", "Correction"]

Json = Mapping[str, Any]

# Seconds between two looks of `progress`.
_LOOK = 1.0

# Of a page of deliveries.
_DELIVERIES = 500

_ENDED = frozenset({"completed", "cancelled", "failed", "recalled"})


class CampaignFields(TypedDict, total=False):
    """What a campaign is to be: content with title, body, url and locales; audience is whom it is for."""

    name: str
    content: Json
    template: str
    """The name of one of the app's templates, whose content is taken as it is now; then there is no content."""
    variables: Mapping[str, str | float | bool]
    """The same for everybody; they go before attributes."""
    audience: Json
    variants: Sequence[Json]
    """Two messages to compare: share in percent, and content or template. That of the first is the campaign's own."""
    metric: str
    """What makes a variant the better one, which the rest of the audience gets: clicks or shown."""
    decide_after: Duration
    """How long after both variants were sent the rest gets the better one."""
    local_time: Json
    """A date and a time of the day where each recipient is, in the place of send_at: at, fallback, passed."""
    send_at: datetime
    """Begin then: it is scheduled as soon as it is made."""
    rate: str
    """Most messages: 25/s, 100/m, 1000/h."""
    spread: Duration
    quiet_hours: Json
    ttl: Duration
    expires_at: datetime
    priority: str
    collapse_key: str
    utm: str
    track: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Correction:
    """How far the correction of what was sent has come."""

    messages: int
    """That it goes over; it is done when as many are corrected or not."""
    corrected: int
    not_corrected: int
    """The deliveries say why."""
    kept: int
    """Over channels whose messages stay as they are."""

    @classmethod
    def from_json(cls, fields: Json) -> Correction:
        """Read a correction as the API writes it."""
        return cls(
            messages=fields["messages"],
            corrected=fields["corrected"],
            not_corrected=fields["not_corrected"],
            kept=fields["kept"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignStatus:
    """How a campaign stands."""

    id: str
    name: str
    revision: str
    """Of its definition and start time; see `AsyncCampaign.revise`."""
    state: str
    """draft, scheduled, running, paused, completed, cancelled, failed, correcting, recalling or recalled"""
    detail: str = ""
    """Why it is paused or failed."""
    total: int = 0
    enumerated: bool = False
    """total is final."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """By outcome: pending, accepted, failed, expired, suppressed, unknown, recalled."""
    shown: int = 0
    clicked: int = 0
    not_recalled: int = 0
    """What a recall could not take back."""
    correction: Correction | None = None
    """How far the last correction has come."""
    variants: Mapping[str, Json] = field(default_factory=dict)
    """By name, A and B: the figures of those who got it before the decision."""
    rest: Json | None = None
    """The figures of those who get the better variant."""
    decision: Json | None = None
    """Which variant the rest gets, and the reason."""
    rate: str = ""
    eta: datetime | None = None

    @property
    def ended(self) -> bool:
        """Whether nothing happens to it by itself any more."""
        return self.state in _ENDED and not self.counts.get("pending")

    @classmethod
    def from_json(cls, fields: Json) -> CampaignStatus:
        """Read a campaign as the API writes it."""
        return cls(
            id=fields["id"],
            name=fields["name"],
            revision=fields.get("revision", ""),
            state=fields["state"],
            detail=fields.get("detail") or "",
            total=fields["total"],
            enumerated=fields["enumerated"],
            counts=fields["counts"],
            shown=fields["shown"],
            clicked=fields["clicked"],
            not_recalled=fields.get("not_recalled", 0),
            correction=Correction.from_json(fields["correction"]) if fields.get("correction") else None,
            variants={variant["name"]: variant for variant in fields.get("variants") or ()},
            rest=fields.get("rest"),
            decision=fields.get("decision"),
            rate=fields["rate"],
            eta=parse_time(fields["eta"]) if fields.get("eta") else None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class CampaignDelivery:
    """What became of one message of a campaign."""

    id: str
    endpoint: str
    recipient: str
    channel: str
    outcome: str
    detail: str
    """The provider's words."""
    attempts: int
    recall: str
    """Why it could not be taken back."""
    correction: str = ""
    """Why it could not be corrected."""
    variant: str = ""
    """That it says, A or B; empty without variants, and until it is decided."""

    @classmethod
    def from_json(cls, fields: Json) -> CampaignDelivery:
        """Read a delivery as the API writes it."""
        return cls(
            id=fields["id"],
            endpoint=fields["endpoint"],
            recipient=fields.get("recipient") or "",
            channel=fields["channel"],
            outcome=fields["outcome"],
            detail=fields.get("detail") or "",
            attempts=fields["attempts"],
            recall=fields.get("recall") or "",
            correction=fields.get("correction") or "",
            variant=fields.get("variant") or "",
        )


def to_json(fields: CampaignFields) -> dict[str, Any]:
    """Write what a campaign is to be as the API reads it."""
    body: dict[str, Any] = dict(fields)
    for name in ("send_at", "expires_at"):
        if name in body:
            body[name] = format_time(body[name])
    for name in ("spread", "ttl", "decide_after"):
        if name in body:
            body[name] = format_duration(body[name])
    return body


def _only(revision: str) -> dict[str, str]:
    """Return the header by which a request changes this revision and no other."""
    return {"If-Match": f'"{revision}"'} if revision else {}


class AsyncCampaign:
    """One campaign. A new one is made by the first method that needs it to be there."""

    def __init__(self, api: API, id: str, fields: CampaignFields) -> None:  # noqa: A002
        self._api = api
        self._id = id
        self._fields = fields
        self._key = secrets.token_urlsafe(16)  # so that a retry makes no second one
        self._making = asyncio.Lock()

    @property
    def id(self) -> str:
        """Its id; empty as long as it has not been made."""
        return self._id

    async def create(self) -> str:
        """Make it, a draft unless it says when it is to be sent, and return its id. Again changes nothing."""
        async with self._making:
            if not self._id:
                answer = await self._api.json(
                    "POST",
                    path("v1", "campaigns"),
                    body=to_json(self._fields),
                    headers={"Idempotency-Key": self._key},
                    doing="create campaign",
                )
                self._id = answer["id"]
        return self._id

    async def _target(self, *verb: str) -> str:
        return path("v1", "campaigns", await self.create(), *verb)

    async def _move(self, verb: str) -> CampaignStatus:
        target = await self._target(verb)
        return CampaignStatus.from_json(await self._api.json("POST", target, doing=f"{verb} campaign {self._id}"))

    async def status(self) -> CampaignStatus:
        """Return how it stands."""
        target = await self._target()
        return CampaignStatus.from_json(await self._api.json("GET", target, doing=f"read campaign {self._id}"))

    async def start(self) -> CampaignStatus:
        """Let it go, at once or at its time."""
        return await self._move("start")

    async def pause(self) -> CampaignStatus:
        """Stop it where it is."""
        return await self._move("pause")

    async def resume(self) -> CampaignStatus:
        """Let it go on."""
        return await self._move("resume")

    async def cancel(self) -> CampaignStatus:
        """End it: what is pending is not sent."""
        return await self._move("cancel")

    async def recall(self) -> CampaignStatus:
        """Take back what was sent, as far as the channels can; `progress` says when that is done."""
        return await self._move("recall")

    async def correct(
        self,
        content: Json | None = None,
        *,
        template: str | None = None,
        variables: Mapping[str, str | float | bool] | None = None,
    ) -> CampaignStatus:
        """Make the messages that were sent over Telegram say this instead; `progress` says when that is done.

        Without variables, those of the campaign are taken.
        """
        says = {"content": content, "template": template, "variables": variables}
        target = await self._target("correct")
        answer = await self._api.json(
            "POST",
            target,
            body={name: value for name, value in says.items() if value is not None},
            doing=f"correct campaign {self._id}",
        )
        return CampaignStatus.from_json(answer)

    async def decide(self, variant: str) -> CampaignStatus:
        """End the comparison of its variants: the rest of the audience gets this one, A or B."""
        target = await self._target("decide")
        answer = await self._api.json("POST", target, body={"variant": variant}, doing=f"decide campaign {self._id}")
        return CampaignStatus.from_json(answer)

    async def clone(self, name: str = "") -> AsyncCampaign:
        """Make a draft with its message, audience and pace."""
        target = await self._target("clone")
        answer = await self._api.json(
            "POST",
            target,
            body={"name": name} if name else {},
            headers={"Idempotency-Key": secrets.token_urlsafe(16)},
            doing=f"clone campaign {self._id}",
        )
        return AsyncCampaign(self._api, answer["id"], {})

    async def test(self, endpoints: Sequence[str]) -> list[dict[str, Any]]:
        """Send it to up to 20 endpoints at once, without counting it: endpoint, outcome, detail of each."""
        target = await self._target("test")
        answer = await self._api.json(
            "POST", target, body={"endpoints": list(endpoints)}, doing=f"test campaign {self._id}"
        )
        return list(answer["results"])

    async def revise(self, fields: CampaignFields, *, revision: str = "") -> CampaignStatus:
        """Replace what it is to be, as long as it has not begun.

        With the revision of a status it replaces that and no other: if somebody has changed the campaign since, the
        call fails with status 412.
        """
        target = await self._target()
        answer = await self._api.json(
            "PUT", target, body=to_json(fields), headers=_only(revision), doing=f"revise campaign {self._id}"
        )
        return CampaignStatus.from_json(answer)

    async def delete(self, *, revision: str = "") -> None:
        """Remove it and its report, or only the given revision. One that may still send has to be cancelled first."""
        await self._api.call(
            "DELETE", await self._target(), headers=_only(revision), doing=f"delete campaign {self._id}"
        )

    async def progress(self) -> AsyncGenerator[CampaignStatus, None]:
        """Yield how it stands, now and whenever a look each second finds it changed, until it has ended.

        One that is a draft or paused has not ended. Bound it with `asyncio.timeout`.
        """
        last: CampaignStatus | None = None
        while True:
            now = await self.status()
            if now != last:
                yield now
            if now.ended:
                return
            last = now
            await asyncio.sleep(_LOOK)

    async def deliveries(self, outcome: str | None = None) -> AsyncGenerator[CampaignDelivery, None]:
        """Go through what became of each message, of one outcome or of all."""
        target = await self._target("deliveries")
        cursor: str | None = None
        while True:
            answer = await self._api.call(
                "GET",
                target,
                query={"outcome": outcome, "format": "ndjson", "limit": _DELIVERIES, "cursor": cursor},
                doing=f"read deliveries of campaign {self._id}",
            )
            lines = answer.content.splitlines()
            for line in lines:
                fields = json.loads(line)
                cursor = fields["cursor"]
                yield CampaignDelivery.from_json(fields)
            if len(lines) < _DELIVERIES:
                return
