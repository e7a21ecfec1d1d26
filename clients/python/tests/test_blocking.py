"""The blocking client against a real server."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator

import pytest

from godwit import Client, NackAfter, Notification, ProblemError, Publication, RefusedError, Welcome
from serving import PATIENCE, Server


@pytest.fixture
def client(server: Server) -> Iterator[Client]:
    with Client(server.url, api_key="dev") as client:
        yield client


def test_publish_and_what_became_of_it(client: Client) -> None:
    receipt = client.publish("b-1", id="x", title="Hi", data={"a": 1})
    assert (receipt.id, receipt.status) == ("x", "stored")
    assert [r.to for r in client.publish(["b-2", "b-3"], id="x", title="Hi")] == ["b-2", "b-3"]
    assert [
        r.ok for r in client.publish_batch([Publication(to="b-4", title="4"), Publication(to="b-5", title="5")])
    ] == [True, True]
    assert client.notify("b-6", "text", ttl="1h").ok
    assert client.acknowledge("b-1", ["x"]) == 1
    assert client.wait("x", "b-1", timeout=PATIENCE).status == "acked"
    assert client.recall("x", "b-2") == 1
    assert {s.to: s.status for s in client.statuses("x")} == {"b-1": "acked", "b-2": "recalled", "b-3": "stored"}
    assert [s.id for s in client.history("b-3")] == ["x"]
    assert client.recipient("b-3").pending == 1
    assert {"b-1", "b-6"} <= {r.id for r in client.recipients()}
    client.erase("b-3")
    with pytest.raises(ProblemError):
        client.status("x", "b-3")


def test_wait_ends_after_its_timeout(client: Client) -> None:
    client.publish("b-7", id="never", title="Hi")
    with pytest.raises(TimeoutError):
        client.wait("never", "b-7", timeout="200ms")


def test_events_can_be_left(client: Client) -> None:
    client.publish("b-8", id="e", title="Hi")
    for event in client.events("stored", since="0"):
        if event.to == "b-8":
            break
    assert event.id == "e"
    assert client.status("e", "b-8").status == "stored"  # the client goes on


def test_listening_in_the_background_acknowledges_after_the_handler(client: Client) -> None:
    got: queue.Queue[tuple[Notification, str]] = queue.Queue()
    connected = threading.Event()

    def handle(n: Notification) -> None:
        if n.title == "later" and n.attempt == 1:
            raise NackAfter(0)
        got.put((n, threading.current_thread().name))

    def on_connect(_: Welcome) -> None:
        connected.set()

    with client.start_listening("b-9", handle, device="d", on_connect=on_connect) as listening:
        assert connected.wait(PATIENCE)
        assert listening.running
        client.publish("b-9", id="now", title="Hi")
        client.publish("b-9", id="then", title="later")
        n, thread = got.get(timeout=PATIENCE)
        assert n.id == "now"
        assert thread != threading.current_thread().name
        n, _ = got.get(timeout=PATIENCE)
        assert (n.id, n.attempt) == ("then", 2)
    assert not listening.running
    assert client.wait("then", "b-9", timeout=PATIENCE).status == "acked"


def test_stop_waits_for_the_handler_and_its_acknowledgement(client: Client) -> None:
    started, go_on = threading.Event(), threading.Event()

    def handle(_: Notification) -> None:
        started.set()
        assert go_on.wait(PATIENCE)

    listening = client.start_listening("b-10", handle)
    client.publish("b-10", id="slow", title="Hi")
    assert started.wait(PATIENCE)
    with pytest.raises(TimeoutError):
        listening.stop(timeout=0.1)
    go_on.set()
    listening.wait(PATIENCE)
    assert client.wait("slow", "b-10", timeout=PATIENCE).status == "acked"


def test_close_ends_what_listens(server: Server) -> None:
    client = Client(server.url, api_key="dev")
    listening = client.start_listening("b-11", lambda _: None)
    client.close()
    assert not listening.running
    client.close()
    with pytest.raises(RuntimeError, match="closed"):
        client.publish("b-11")


def test_listen_raises_the_refusal(server: Server) -> None:
    with Client(server.url, token="not.a.token") as client, pytest.raises(RefusedError) as caught:
        client.listen("b-12", lambda _: None)
    assert caught.value.reason == "unauthenticated"


def test_token_source_may_block(server: Server) -> None:
    def token() -> str:
        return server.run("token", "--recipient", "b-13", "--ttl", "1h").strip()

    got: queue.Queue[Notification] = queue.Queue()
    with (
        Client(server.url, api_key="dev") as backend,
        Client(server.url, token=token, grpc_address=server.grpc) as client,
        client.start_listening("b-13", got.put),
    ):
        backend.publish("b-13", id="x", title="Hi")
        assert got.get(timeout=PATIENCE).id == "x"


def test_calling_it_from_a_callback_works_and_from_its_own_loop_is_refused(client: Client) -> None:
    answers: queue.Queue[str] = queue.Queue()

    def handle(n: Notification) -> None:
        answers.put(client.status(n.id, "b-14").status)

    with client.start_listening("b-14", handle):
        client.publish("b-14", id="x", title="Hi")
        assert answers.get(timeout=PATIENCE) in ("stored", "delivered")
