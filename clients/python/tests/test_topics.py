"""Topics, published and subscribed to, against a real server."""

from __future__ import annotations

import asyncio
import queue

import pytest

from godwit import AsyncClient, Client, GodwitError, Message, SubscriptionError, Topics, Welcome
from godwit.frames import ErrorFrame, Subscribe
from godwit.frames import MessageGap as Gap
from godwit.values import check_topic
from serving import PATIENCE, NewServer, Server
from test_listen import listening

pytestmark = pytest.mark.anyio


class Subscriber:
    """Topics with a handler that keeps what it gets."""

    def __init__(self, *patterns: str, queue: str = "") -> None:
        self.got: asyncio.Queue[Message] = asyncio.Queue()
        self.topics = Topics(self.got.put)
        self.topics.subscribe(*patterns, queue=queue)


async def test_message_of_any_kind_arrives_whole(client: AsyncClient, root: str) -> None:
    s = Subscriber(f"{root}.>")
    async with listening(client, "reader", topics=s.topics):
        await s.topics.active()
        await client.publish_message(f"{root}.json", {"fare": 120})
        await client.publish_message(f"{root}.text", b"two\nlines")
        await client.publish_message(f"{root}.bytes", b"\x00\xff", content_type="image/png")
        await client.publish_message(f"{root}.a.b.c")
        json, text, data, empty = [await s.got.get() for _ in range(4)]
    assert (json.topic, json.json(), json.content_type) == (f"{root}.json", {"fare": 120}, "application/json")
    assert (text.text(), text.content_type) == ("two\nlines", "text/plain; charset=utf-8")
    assert (data.data, data.content_type) == (b"\x00\xff", "image/png")
    assert (empty.topic, empty.data) == (f"{root}.a.b.c", b"")


async def test_subscriptions_begin_and_end_while_connected(client: AsyncClient, root: str) -> None:
    s = Subscriber()
    async with listening(client, "reader", topics=s.topics):
        s.topics.subscribe(f"{root}.a", f"{root}.*")  # a message comes once however many patterns match
        await s.topics.active()
        await client.publish_message(f"{root}.a", 1)
        await client.publish_message(f"{root}.b", 2)
        assert [(await s.got.get()).json() for _ in range(2)] == [1, 2]
        s.topics.unsubscribe(f"{root}.*")
        s.topics.subscribe(f"{root}.end")  # its pong comes after the unsubscribe was taken
        await s.topics.active()
        await client.publish_message(f"{root}.b", 3)
        await client.publish_message(f"{root}.end", 4)
        assert (await s.got.get()).json() == 4


async def test_of_a_queue_one_gets_each_message(client: AsyncClient, root: str) -> None:
    one, other = Subscriber(root, queue="q"), Subscriber(root, queue="q")
    both: asyncio.Queue[Message] = asyncio.Queue()
    one.got = other.got = both
    one.topics, other.topics = Topics(both.put), Topics(both.put)
    for topics in (one.topics, other.topics):
        topics.subscribe(root, queue="q")
    async with (
        listening(client, "one", topics=one.topics),
        listening(client, "other", topics=other.topics),
    ):
        await one.topics.active()
        await other.topics.active()
        for i in range(50):
            await client.publish_message(root, i)
        assert sorted([(await both.get()).json() for _ in range(50)]) == list(range(50))
    assert both.empty()


async def test_subscriptions_are_made_again_after_a_disconnect(client: AsyncClient, root: str) -> None:
    s = Subscriber(root)
    connected: asyncio.Queue[Welcome] = asyncio.Queue()
    async with listening(client, root, topics=s.topics, on_connect=connected.put_nowait):
        await connected.get()
        await s.topics.active()
        assert await client.disconnect(root) == 1
        await connected.get()
        await s.topics.active()
        await client.publish_message(root, "again")
        assert (await s.got.get()).json() == "again"


async def test_refused_pattern_is_told_and_dropped(new_server: NewServer) -> None:
    server = new_server()
    token = server.run("token", "--app", "demo", "--recipient", "anna", "--topics", "rides.*").strip()
    refused: asyncio.Queue[SubscriptionError] = asyncio.Queue()
    topics = Topics(lambda _: None, on_refused=refused.put)
    topics.subscribe("rides.oslo", "rides.>")
    async with (
        asyncio.timeout(PATIENCE),
        AsyncClient(server.url, token=token) as client,
        listening(client, "anna", topics=topics),
    ):
        error = await refused.get()
        await topics.active()
    assert (error.topics, error.code) == (("rides.>",), "forbidden")


def test_blocking_client_handles_messages_in_threads(server: Server, root: str) -> None:
    got: queue.Queue[Message] = queue.Queue()
    topics = Topics(got.put)
    topics.subscribe(root)
    with Client(server.url, api_key="dev") as client, client.start_listening("reader", topics=topics):
        while got.empty():  # nobody tells when the subscription is made
            client.publish_message(root, {"n": 1})
        assert got.get(timeout=PATIENCE).json() == {"n": 1}


async def test_what_the_handler_is_too_slow_for_is_told_as_a_gap() -> None:
    told: asyncio.Queue[Message | int] = asyncio.Queue()
    topics = Topics(told.put, on_gap=told.put)
    topics.attach()
    for i in range(4100):
        topics.received(Message(topic="a", data=b"%d" % i))
    topics.received(Gap(3))
    topics.received(Message(topic="a", data=b"last"))  # there is still no room

    async def report(error: GodwitError) -> None:
        raise AssertionError(error)

    work = asyncio.create_task(topics.work(report))
    got = [await told.get() for _ in range(4097)]
    topics.stop()
    await work
    assert got[:4096] == [Message(topic="a", data=b"%d" % i) for i in range(4096)]
    assert got[4096] == 8


async def test_what_the_server_cannot_do_now_is_asked_for_again() -> None:
    topics = Topics(lambda _: None)
    topics.subscribe("a", "b")
    topics.connected(asyncio.Event())
    assert topics.take(1) == [Subscribe(("a", "b"))]
    assert topics.refused(ErrorFrame("unavailable", "no bus", "topics", ("a",)))
    while not (frames := topics.take(2)):
        await asyncio.sleep(topics.due_in())
    assert frames == [Subscribe(("a",))]
    assert not topics.refused(ErrorFrame("bad_field", "", "ids"))


@pytest.mark.parametrize("bad", ["", "a..b", "a.>.b", "a*", ".a", "a b", "a\r\nb", ".".join("a" * 17), "a" * 256])
def test_bad_topic_is_refused_before_it_is_sent(bad: str) -> None:
    with pytest.raises(ValueError, match="topic"):
        check_topic(bad)
    with pytest.raises(ValueError, match="topic"):
        Topics(lambda _: None).subscribe(bad)
