"""Requests, made and answered, against a real server."""

from __future__ import annotations

import asyncio
import json
import threading
from typing import Any

import pytest

from godwit import (
    AsyncClient,
    Client,
    NoAnswerError,
    NobodyServesError,
    Notification,
    Reply,
    Request,
    ServeError,
    Welcome,
    Workers,
)
from godwit.frames import MAX_BODY, MAX_REPLY
from godwit.jsonframes import decode_json, encode_json
from godwit.listener import ListenOptions
from serving import PATIENCE, NewServer, Server
from test_listen import listening

pytestmark = pytest.mark.anyio


async def test_request_is_answered_whole(client: AsyncClient, root: str) -> None:
    asked: list[Request] = []

    async def echo(r: Request) -> Reply:
        asked.append(r)
        headers = {"Set-Cookie": ["a=1", "b=2"], "Location": "/orders/7"}
        return Reply(r.data, status=418, headers=headers, content_type=r.content_type)

    workers = Workers(echo)
    workers.serve(f"{root}.>", queue="orders")
    every: list[Any] = [None, {"n": [1, "<&>"]}, b"two\nlines", b"\x00\xff", b"\xff" * MAX_BODY, b"\x01" * MAX_BODY]
    async with listening(client, root, workers=workers):
        await workers.active()
        for data in every:
            a = await client.request(f"{root}.create", data, timeout=20)
            assert (a.status, a.headers["set-cookie"], a.headers["location"]) == (418, ("a=1", "b=2"), ("/orders/7",))
            assert (a.json() if isinstance(data, dict) else a.data) == (data or b"")
        await client.request_recipient(root, subject="are.you.there")
    assert [r.subject for r in asked] == [f"{root}.create"] * len(every) + ["are.you.there"]


async def test_what_fails_is_told_apart(client: AsyncClient, root: str) -> None:
    with pytest.raises(NobodyServesError) as nobody:
        await client.request(f"{root}.x")
    assert nobody.value.status == 503
    with pytest.raises(NobodyServesError):
        await client.request_recipient(root)
    asked = 0
    cancelled = asyncio.Event()

    async def work(r: Request) -> Reply | None:
        nonlocal asked
        asked += 1
        match r.subject.rpartition(".")[2]:
            case "never":
                try:
                    await asyncio.Event().wait()
                finally:
                    cancelled.set()
            case "broken":
                raise ValueError("secret")
            case "moved":
                return Reply(status=302, headers={"Location": "/elsewhere"})
            case "big":
                return Reply(b"\xff" * (MAX_BODY + 1))
            case "header":
                return Reply(headers={"A": "b\r\nc"})
        return None

    workers = Workers(work)
    workers.serve(f"{root}.*")
    async with listening(client, root, workers=workers):
        await workers.active()
        with pytest.raises(NoAnswerError) as late:
            await client.request(f"{root}.never", timeout=1)
        assert late.value.status == 504
        await cancelled.wait()
        for name, status in (("broken", 500), ("big", 500), ("header", 500), ("moved", 302), ("nothing", 200)):
            answer = await client.request(f"{root}.{name}")
            assert (answer.status, answer.data) == (status, b"")
    assert asked == 6  # each once


async def test_subjects_are_served_again_after_a_disconnect(client: AsyncClient, root: str) -> None:
    workers = Workers(lambda r: Reply(r.subject))  # a plain function runs in a thread
    workers.serve(f"{root}.a", f"{root}.b")
    connected: asyncio.Queue[Welcome] = asyncio.Queue()
    async with listening(client, root, workers=workers, on_connect=connected.put_nowait):
        await connected.get()
        await workers.active()
        assert await client.disconnect(root) == 1
        await connected.get()
        await workers.active()
        assert (await client.request(f"{root}.a")).json() == f"{root}.a"
        workers.unserve(f"{root}.a")
        workers.serve(f"{root}.c")  # its pong comes after the unserve was taken
        await workers.active()
        with pytest.raises(NobodyServesError):
            await client.request(f"{root}.a")


async def test_end_answers_what_runs(client: AsyncClient, root: str) -> None:
    begun, free = asyncio.Event(), asyncio.Event()

    async def slow(_: Request) -> Reply:
        begun.set()
        await free.wait()
        return Reply("done")

    workers = Workers(slow)
    workers.serve(root)
    listener = client.listener(root, None, ListenOptions(workers=workers))
    running = asyncio.create_task(listener.run())
    await workers.active()
    asked = asyncio.create_task(client.request(root, timeout=20))
    await begun.wait()
    listener.stop()
    while True:  # nothing more is served at once, although one request still runs
        try:
            await client.request(root, timeout=0.05)
        except NobodyServesError:
            break
        except NoAnswerError:
            pass
    assert not running.done()
    free.set()
    assert (await asked).json() == "done"
    await running


async def test_requests_are_bounded_by_the_window(client: AsyncClient, root: str) -> None:
    begun: asyncio.Queue[None] = asyncio.Queue()
    free = threading.Event()
    loop = asyncio.get_running_loop()

    def slow(_: Request) -> None:
        loop.call_soon_threadsafe(begun.put_nowait, None)
        free.wait(PATIENCE)

    workers = Workers(slow)
    workers.serve(root)
    async with listening(client, root, workers=workers, window=1):
        await workers.active()
        asked = asyncio.create_task(client.request(root, timeout=20))
        await begun.get()
        with pytest.raises(NobodyServesError):
            await client.request(root)
        free.set()
        assert (await asked).status == 200


async def test_refused_subject_is_told_and_dropped(new_server: NewServer) -> None:
    server = new_server()
    token = server.run("token", "--app", "demo", "--recipient", "anna", "--serve", "orders.*").strip()
    refused: asyncio.Queue[ServeError] = asyncio.Queue()
    workers = Workers(lambda _: None, on_refused=refused.put)
    workers.serve("orders.get", "orders.>")
    async with (
        asyncio.timeout(PATIENCE),
        AsyncClient(server.url, token=token) as client,
        listening(client, "anna", workers=workers),
    ):
        error = await refused.get()
        await workers.active()
    assert (error.subjects, error.code) == (("orders.>",), "forbidden")


async def test_client_without_workers_says_so(client: AsyncClient, root: str) -> None:
    connected = asyncio.Event()
    async with listening(client, root, on_connect=lambda _: connected.set()):
        await connected.wait()
        assert (await client.request_recipient(root)).status == 501


async def test_request_for_a_notification_is_answered(client: AsyncClient, root: str) -> None:
    async def handle(n: Notification) -> Reply | None:
        return Reply(n.data, status=202) if n.reply_by else None

    async with listening(client, root, handle):
        await client.publish(root, id="asks", data={"accept": True}, reply_by=3600)
        await client.publish(root, id="tells", title="Hi")
        status = await client.wait("asks", root)
        assert status.status == "replied"
        assert status.reply == {"status": 202, "content_type": "application/json", "data": {"accept": True}}
        assert (await client.wait("tells", root)).status == "acked"


async def test_lost_reply_is_given_again(client: AsyncClient) -> None:
    handled = 0

    async def handle(_: Notification) -> Reply:
        nonlocal handled
        handled += 1
        return Reply(b"x" * (handled > 1) * (MAX_REPLY + 1))

    listener = client.listener("anna", handle, ListenOptions())
    for name in ("a", "b"):
        await listener._handle_one(Notification(id=name))
    (first,) = listener.outbox.take()  # the listener does not hold the other, which is refused
    assert getattr(first, "id", "") == "a"
    listener.take(Notification(id="a"))
    assert listener.outbox.take() == [first]
    assert handled == 2


def test_blocking_client_answers_requests_in_threads(server: Server, root: str) -> None:
    workers = Workers(lambda r: Reply({"thread": threading.current_thread().name, "asked": r.json()}))
    workers.serve(root)
    with (
        Client(server.url, api_key="dev") as client,
        client.start_listening(root, lambda n: Reply("yes") if n.reply_by else None, workers=workers),
    ):
        while True:  # nobody tells a thread when the subject is served
            try:
                answer = client.request(root, 7).json()
                break
            except NobodyServesError:
                pass
        assert answer["asked"] == 7
        assert answer["thread"] != "godwit client"
        assert client.request_recipient(root, 8).json()["asked"] == 8
        client.publish(root, id="asks", title="Yes?", reply_by=3600)
        assert client.wait("asks", root, timeout=PATIENCE).reply["data"] == "yes"


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (b'{"a":1}', "application/json"),
        (b'{ "a": 1.0 }', "application/json"),
        (b"{", "application/json"),
        (b"\x00" * 100, "text/plain"),
        ("☂".encode(), "text/plain"),
        (b"\xff", "image/png"),
    ],
)
def test_request_data_is_answered_byte_by_byte(data: bytes, content_type: str) -> None:
    reply = Reply()
    reply.data, reply.content_type = data, content_type
    written = encode_json(reply.to(Request(request_id="q")))
    assert len(written) <= len(data) * 4 / 3 + 150
    fields = json.loads(written)["reply"]
    read = decode_json(json.dumps({"request": {**fields, "status": None}}))
    assert isinstance(read, Request)
    assert read.data == data
