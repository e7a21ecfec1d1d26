"""Campaigns, endpoints and channels against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from godwit import AsyncClient, CampaignFields, Client, ProblemError
from serving import PATIENCE, Server

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(server: Server) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, api_key="dev") as client, asyncio.timeout(PATIENCE):
        yield client


async def test_campaign_is_started_followed_and_recalled(client: AsyncClient) -> None:
    fields: CampaignFields = {
        "name": "Spring",
        "content": {"title": "Hi {{name|friend}}"},
        "audience": {"channels": ["live"], "recipients": ["camp-1", "camp-2"]},
        "ttl": "1h",
    }
    campaign = client.campaign(**fields)
    assert campaign.id == ""
    assert (await campaign.status()).state == "draft"
    revision = (await campaign.status()).revision
    assert (await campaign.revise({**fields, "name": "Summer"}, revision=revision)).name == "Summer"
    for change in (
        campaign.revise({**fields, "name": "Autumn"}, revision=revision),
        campaign.delete(revision=revision),
    ):
        with pytest.raises(ProblemError, match="changed") as later:
            await change
        assert later.value.status == 412
    assert (await campaign.status()).name == "Summer"
    await campaign.start()
    seen = [status async for status in campaign.progress()]
    assert (seen[-1].state, seen[-1].counts["accepted"], seen[-1].total) == ("completed", 2, 2)
    assert {d.recipient async for d in campaign.deliveries("accepted")} == {"camp-1", "camp-2"}
    again = client.campaign(campaign.id)
    with pytest.raises(ProblemError, match="telegram") as sent_elsewhere:
        await again.correct({"title": "Ho"})
    assert sent_elsewhere.value.status == 409
    await again.recall()
    seen = [status async for status in again.progress()]
    assert (seen[-1].state, seen[-1].counts["recalled"]) == ("recalled", 2)
    copy = await again.clone("Autumn")
    status = await copy.status()
    assert (status.name, status.state, status.total) == ("Autumn", "draft", 0)
    variants: list[dict[str, Any]] = [{"share": 50}, {"share": 50, "content": {"title": "Ho"}}]
    await copy.revise({**fields, "variants": variants})
    await copy.start()
    seen = [status async for status in copy.progress()]
    assert sum(variant["total"] for variant in seen[-1].variants.values()) == 2
    assert {d.variant async for d in copy.deliveries()} <= {"A", "B"}
    with pytest.raises(ProblemError, match="no part of its audience"):
        await copy.decide("A")
    await again.delete()
    with pytest.raises(ProblemError) as caught:
        await again.status()
    assert caught.value.status == 404


async def test_bad_campaign_is_refused_by_its_field(client: AsyncClient) -> None:
    with pytest.raises(ProblemError) as caught:
        await client.campaign(content={"title": "Hi", "telegram": {"button": []}}).start()
    assert caught.value.problem.field == "content.telegram.button"


async def test_campaign_has_an_id_or_fields(client: AsyncClient) -> None:
    with pytest.raises(ValueError, match="content"):
        client.campaign()
    with pytest.raises(ValueError, match="id"):
        client.campaign("01", name="x")


async def test_endpoints_are_registered_changed_and_counted(client: AsyncClient) -> None:
    end = client.endpoints
    one = await end.register("telegram", {"chat_id": 77}, recipient="ep-1", tags=["py"], attributes={"age": 42})
    assert (await end.get(one)).address == {"chat_id": 77}
    assert (await end.change(one, add_tags=["vip"])).tags == ("py", "vip")
    assert [e.id async for e in end.list(tag="vip")] == [one]
    assert await end.count(where='tags contains "vip"') == 1
    for unknown in (end.count(segment="nobody"), anext(aiter(end.list(segment="nobody")))):
        with pytest.raises(ProblemError) as refused:
            await unknown
        assert refused.value.field == "segment"
    await end.delete(one)
    assert await end.count(tags_any=["vip"]) == 0


async def test_channels_are_set_up_and_tried(client: AsyncClient) -> None:
    await client.channels.set("telegram", token="42:AAExampleSecretOfTheBot", base_url="http://127.0.0.1:1")
    assert {c["channel"]: c["enabled"] for c in await client.channels.list()}["telegram"]
    assert not (await client.channels.test("telegram"))["ok"]
    await client.channels.delete("telegram")


def test_blocking_client_does_the_same(server: Server) -> None:
    with Client(server.url, api_key="dev") as client:
        client.endpoints.register("live", recipient="camp-3")
        campaign = client.campaign(content={"title": "Hi"}, audience={"channels": ["live"], "recipients": ["camp-3"]})
        campaign.start()
        assert [s.state for s in campaign.progress()][-1] == "completed"
        assert [d.outcome for d in campaign.deliveries()] == ["accepted"]
        assert campaign.test([e.id for e in client.endpoints.list(recipient="camp-3")])[0]["outcome"] == "accepted"
        assert {c["channel"] for c in client.channels.list()} >= {"live", "webpush"}
