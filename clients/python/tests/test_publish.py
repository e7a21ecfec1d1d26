"""Publishing, and what becomes of it, against a real server."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from godwit import AsyncClient, BatchError, Escalation, Preferences, ProblemError, Publication, UnreachableError
from serving import PATIENCE, NewServer, Server, eventually

pytestmark = pytest.mark.anyio


@pytest.fixture
async def client(server: Server) -> AsyncIterator[AsyncClient]:
    async with AsyncClient(server.url, api_key="dev") as client, asyncio.timeout(PATIENCE):
        yield client


async def test_receipt_says_what_is_stored(client: AsyncClient) -> None:
    sent = datetime.now(UTC)
    receipt = await client.publish(
        "pub-1", id="ride-1", title="New ride", data={"fare": 120}, ttl="5m", priority="high"
    )
    assert (receipt.id, receipt.to, receipt.status, receipt.duplicate, receipt.ok) == (
        "ride-1",
        "pub-1",
        "stored",
        False,
        True,
    )
    assert receipt.expires_at is not None
    assert abs(receipt.expires_at - sent - timedelta(minutes=5)) < timedelta(seconds=10)
    status = await client.status("ride-1", "pub-1")
    assert (status.status, status.priority, status.ack, status.seq, status.settled) == (
        "stored",
        "high",
        "any",
        1,
        False,
    )


async def test_same_id_is_a_duplicate_and_other_content_a_conflict(client: AsyncClient) -> None:
    first = await client.publish("pub-2", id="x", title="one", data=[1])
    again = await client.publish("pub-2", id="x", title="one", data=[1])
    assert (first.duplicate, again.duplicate) == (False, True)
    with pytest.raises(ProblemError) as caught:
        await client.publish("pub-2", id="x", title="two")
    assert (caught.value.status, caught.value.type) == (409, "/problems/id-conflict")
    assert str(caught.value).startswith("publish x to pub-2: server answered 409: ")


@pytest.mark.parametrize("rpc", [False, True])
async def test_what_phones_get_travels(server: Server, rpc: bool) -> None:
    more: dict[str, Any] = {"grpc_address": server.grpc, "rpc": True} if rpc else {}
    async with AsyncClient(server.url, api_key="dev", **more) as client, asyncio.timeout(PATIENCE):
        wrong: dict[str, dict[str, Any]] = {
            "fcm.progress": {"fcm": {"ongoing": True, "progress": 101}},
            "apns.interruption_level": {"apns": {"interruption_level": "loud"}},
            "live_activity.state": {"live_activity": {"type": "RideAttributes"}},
        }
        for field, fields in wrong.items():
            with pytest.raises(ProblemError) as caught:
                await client.publish("pub-5", title="one", **fields)
            assert caught.value.field == field
        assert (await client.publish("pub-5", title="one", fcm={"direct_boot_ok": True})).ok


async def test_same_idempotency_key_is_the_same_notification(client: AsyncClient) -> None:
    first = await client.publish("pub-3", title="one", idempotency_key="order-7")
    again = await client.publish("pub-3", title="one", idempotency_key="order-7")
    other = await client.publish("pub-3", title="one", idempotency_key="order-8")
    assert first.id == again.id != other.id
    assert again.duplicate
    assert not other.duplicate
    both = await client.publish(["pub-3", "pub-4"], title="one", idempotency_key="order-9")
    assert both[0].id == both[1].id


async def test_trace_goes_on_in_the_server(new_server: NewServer) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    came = asyncio.Event()

    async def collect(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = next(
            int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")
        )
        if bytes.fromhex(trace) in await reader.readexactly(length):
            came.set()
        writer.write(
            b"HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
        )
        await writer.drain()
        writer.close()

    async with asyncio.timeout(PATIENCE), await asyncio.start_server(collect, "127.0.0.1", 0) as collector:
        server = new_server("--otlp", f"http://127.0.0.1:{collector.sockets[0].getsockname()[1]}")
        async with AsyncClient(server.url, api_key="dev") as client:
            await client.publish("traced", title="one", traceparent=f"00-{trace}-00f067aa0ba902b7-01")
            await came.wait()


async def test_bad_field_is_named(client: AsyncClient) -> None:
    with pytest.raises(ProblemError) as caught:
        await client.publish("pub-5", title="Hi", ttl="never")
    assert (caught.value.status, caught.value.field) == (400, "ttl")
    with pytest.raises(ValueError, match="not JSON compliant"):
        await client.publish("pub-5", data=float("nan"))
    with pytest.raises(TypeError, match="must be text or bytes"):
        await client.publish("pub-5", data={}, content_type="text/plain")
    with pytest.raises(ValueError, match="not valid JSON"):
        await client.publish("pub-5", data=b"{", content_type="application/json")


async def test_every_field_reaches_the_server(client: AsyncClient) -> None:
    later = datetime.now(UTC) + timedelta(minutes=10)
    receipt = await client.publish(
        "pub-6",
        id="whole",
        title="t",
        body="b",
        category="C",
        data="text",
        content_type="text/plain",
        send_at=later,
        expires_at=later + timedelta(minutes=1),
        collapse_key="k",
        priority="low",
        ack="all",
        escalate=[Escalation("live")],
    )
    assert receipt.status == "scheduled"
    status = await client.status("whole", "pub-6")
    assert (status.status, status.priority, status.ack, status.seq) == ("scheduled", "low", "all", 0)
    assert status.send_at is not None
    assert abs(status.send_at - later) < timedelta(milliseconds=2)


async def test_the_status_of_what_gathers_names_its_digest(client: AsyncClient) -> None:
    settings = {"digest": {"window": "1h", "max": 2}}
    await client._api.json("PUT", "/v1/categories/comment", body=settings, doing="set category comment")
    await client.publish("pub-d", id="one", category="comment", title="one")
    waits = await client.status("one", "pub-d")
    assert waits.status == "gathered"
    assert waits.digest is not None
    assert waits.digest.due_at is not None
    assert waits.created_at is not None
    assert waits.created_at <= waits.digest.due_at - timedelta(hours=1) <= datetime.now(UTC)
    await client.publish("pub-d", id="two", category="comment", title="two")

    async def left() -> bool:
        return (await client.status("two", "pub-d")).status == "digested"

    await eventually(left)
    assert (await client.status(waits.digest.id, "pub-d")).digest is None
    gone = (await client.status("two", "pub-d")).digest
    assert gone is not None
    assert gone.id == waits.digest.id


async def test_a_template_says_what_a_publish_does_not(client: AsyncClient) -> None:
    content = {"language": "en", "title": "Plan {{plan}}", "locales": {"de": {"title": "Tarif {{plan}}"}}}
    await client._api.json("PUT", "/v1/templates/plan", body={"content": content}, doing="set template plan")
    receipt = await client.publish("pub-t", template="plan", variables={"plan": 7}, locale="de")
    assert receipt.status == "stored"
    with pytest.raises(ProblemError, match=r"variables\.plan"):
        await client.publish("pub-t", template="plan")
    campaign = client.campaign(template="plan", variables={"plan": "pro"})
    assert (await campaign.status()).state == "draft"


async def test_list_answers_every_recipient_in_order(client: AsyncClient) -> None:
    receipts = await client.publish(["pub-7", "not a name", "pub-8"], title="x")
    assert [r.to for r in receipts] == ["pub-7", "not a name", "pub-8"]
    assert [r.ok for r in receipts] == [True, False, True]
    assert receipts[0].id == receipts[2].id
    assert receipts[1].problem is not None
    assert receipts[1].problem.status == 400
    assert {s.to for s in await client.statuses(receipts[0].id)} == {"pub-7", "pub-8"}


async def test_batch_of_any_size_answers_in_order(client: AsyncClient) -> None:
    publications = [Publication(to=f"batch-{i % 50}", id=f"n{i}", title="x") for i in range(10_500)]
    publications[7] = Publication(to="no name", id="n7")
    receipts = await client.publish_batch(publications)
    assert [(r.to, r.id) for r in receipts] == [(p.to, p.id) for p in publications]
    assert [i for i, r in enumerate(receipts) if not r.ok] == [7]
    again = await client.publish_batch(publications[:20])
    assert [r.duplicate for r in again] == [i != 7 for i in range(20)]


async def test_batch_that_cannot_be_sent_says_what_is_known() -> None:
    async with AsyncClient("http://127.0.0.1:1", api_key="dev", attempts=2) as nowhere:
        with pytest.raises(BatchError) as caught:
            await nowhere.publish_batch([Publication(to="a", id="x")])
    assert [(r.id, r.status) for r in caught.value.receipts] == [("x", "")]
    assert isinstance(caught.value.__cause__, UnreachableError)


async def test_text_is_a_notification(client: AsyncClient) -> None:
    receipt = await client.notify("pub-9", "Blåbær ☕", title="Hi", ttl="1h")
    assert (await client.status(receipt.id, "pub-9")).status == "stored"


async def test_recall_withdraws_what_is_pending(client: AsyncClient) -> None:
    await client.publish(["pub-10", "pub-11", "pub-12"], id="r", title="Hi")
    await client.acknowledge("pub-12", ["r"])
    assert await client.recall("r", "pub-10") == 1
    assert await client.recall("r") == 1
    assert {s.to: s.status for s in await client.statuses("r")} == {
        "pub-10": "recalled",
        "pub-11": "recalled",
        "pub-12": "acked",
    }


async def test_wait_returns_when_it_is_settled(client: AsyncClient) -> None:
    await client.publish("pub-13", id="w", title="Hi")
    waiting = asyncio.create_task(client.wait("w", "pub-13"))
    await asyncio.sleep(0)
    assert await client.acknowledge("pub-13", ["w", "unknown"]) == 1
    status = await waiting
    assert (status.status, status.settled) == ("acked", True)
    assert (await client.wait("w", "pub-13")).status == "acked"  # long settled: at once
    with pytest.raises(ProblemError) as caught:
        await client.wait("never", "pub-13")
    assert caught.value.status == 404


async def test_events_go_on_after_the_one_named(client: AsyncClient) -> None:
    await client.publish("pub-14", id="e1", title="Hi")
    feed = client.events("stored", "recalled", since="0")
    async for event in feed:
        if event.to == "pub-14":
            break
    await feed.aclose()
    assert (event.type, event.id) == ("stored", "e1")
    await client.recall("e1")
    await client.publish("pub-14", id="e2", title="Hi")
    seen = []
    feed = client.events("stored", "recalled", since=event.event_id)
    async for event in feed:
        if event.to == "pub-14":
            seen.append((event.type, event.id))
        if len(seen) == 2:
            break
    await feed.aclose()
    assert seen == [("recalled", "e1"), ("stored", "e2")]


async def test_events_go_on_though_the_server_is_killed(new_server: NewServer) -> None:
    server = new_server()
    async with AsyncClient(server.url, api_key="dev", attempts=30) as client, asyncio.timeout(2 * PATIENCE):
        feed = client.events("stored", since="0")
        await client.publish("a", id="before", title="Hi")
        assert (await anext(feed)).id == "before"
        server.kill()
        await asyncio.to_thread(server.start)
        await client.publish("a", id="after", title="Hi")
        assert (await anext(feed)).id == "after"
        await feed.aclose()


async def test_recipients_are_listed_page_by_page(client: AsyncClient) -> None:
    names = [f"page-{i:03}" for i in range(120)]
    await client.publish(names, id="p", title="Hi")
    found = [r.id async for r in client.recipients() if r.id.startswith("page-")]
    assert found == names
    recipient = await client.recipient("page-007")
    assert (recipient.pending, recipient.last_seq, recipient.online, recipient.sessions) == (1, 1, False, ())
    await client.recall("p", "page-007")
    assert [(s.id, s.status) async for s in client.history("page-007")] == [("p", "recalled")]
    assert [s.id async for s in client.history("page-007", status="stored")] == []
    await client.erase("page-007")
    await client.erase("page-007")
    with pytest.raises(ProblemError) as caught:
        await client.recipient("page-007")
    assert caught.value.status == 404


async def test_preferences_are_those_that_were_set_last(client: AsyncClient) -> None:
    assert await client.preferences("choosy") == Preferences()
    said = Preferences(
        categories={"promo": [], "*": ["fcm"], "rides": None}, quiet_hours=("22:00", "08:00"), timezone="Europe/Oslo"
    )
    await client.set_preferences("choosy", said)
    assert await client.preferences("choosy") == said
    with pytest.raises(ProblemError) as caught:
        await client.set_preferences("choosy", Preferences(categories={"promo": ["fcm", "pigeon"]}))
    assert caught.value.field == "categories.promo.channels[1]"
    await client.set_preferences("choosy", Preferences())
    assert await client.preferences("choosy") == Preferences()


async def test_bad_key_is_refused_at_once(server: Server) -> None:
    async with AsyncClient(server.url, api_key="wrong") as client:
        with pytest.raises(ProblemError) as caught:
            await client.publish("pub-15", title="Hi")
    assert caught.value.status == 401


async def test_publish_is_stored_once_though_the_server_is_killed(new_server: NewServer) -> None:
    server = new_server()
    async with AsyncClient(server.url, api_key="dev", attempts=30, timeout=5) as client:
        await client.publish("a", id="before", title="Hi")
        server.kill()
        publishing = asyncio.create_task(client.publish("a", id="during", title="Hi"))
        await asyncio.to_thread(server.start)
        assert (await publishing).ok
        assert {s.id: s.status async for s in client.history("a")} == {"before": "stored", "during": "stored"}


def test_address_must_be_a_url() -> None:
    with pytest.raises(ValueError, match="not an http or https URL"):
        AsyncClient("localhost:8080")
