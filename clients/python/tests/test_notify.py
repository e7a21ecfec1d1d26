"""The interface of observation units, against a real server."""

from __future__ import annotations

import json
import queue
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import pytest

from certificates import Authority
from godwit import Client, ProblemError
from godwit.notify import (
    Change,
    Connection,
    Notification,
    Notify,
    RefusedError,
    RegistrationError,
    RegistrationStatus,
    State,
    SyncTimeoutError,
)
from serving import PATIENCE, NewServer, Server

Transport = Literal["grpc", "websocket"]


def where(server: Server, transport: Transport = "grpc", **options: Any) -> Connection:
    address, port = (server.grpc if transport == "grpc" else server.http).split(":")
    return Connection(address=address, port=int(port), transport=transport, **options)


@pytest.fixture
def backend(server: Server) -> Iterator[Client]:
    with Client(server.url, api_key="dev") as client:
        yield client


@pytest.fixture
def unit(request: pytest.FixtureRequest, server: Server) -> Iterator[Callable[..., Notify]]:
    """Make units of the test's own group, which end with the test."""
    made: list[Notify] = []
    group = str(request.node.name).translate({ord("["): ".", ord("]"): None})[-80:]

    def make(transport: Transport = "grpc", **options: Any) -> Notify:
        options.setdefault("connection", where(server, transport))
        notify = Notify(**{"domain": "demo", "group_id": group, "client_id": "unit-1", **options})
        made.append(notify)
        return notify

    yield make
    for notify in made:
        notify.disconnect()


class Seen:
    """A subscriber that keeps what it gets."""

    def __init__(self) -> None:
        self.got: queue.Queue[Notification] = queue.Queue()
        self.completed = threading.Event()
        self.errors: queue.Queue[Exception] = queue.Queue()

    def follow(self, notify: Notify, name: str) -> None:
        notify.register(name).subscribe(self.got.put, self.errors.put, self.completed.set)

    def next(self) -> tuple[str, str, bool]:
        n = self.got.get(timeout=PATIENCE)
        return n.object, n.version, n.unknown


def eventually(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < end, "it never came true"
        time.sleep(0.02)


@pytest.mark.parametrize("transport", ["grpc", "websocket"])
def test_unit_follows_registers_and_unregisters(
    unit: Callable[..., Notify], backend: Client, transport: Transport
) -> None:
    notify = unit(transport)
    changes: list[Change] = []
    notify.changes.subscribe(changes.append)
    backend.put_object(notify.group_id, "camera-config", version=7, payload={"iso": 100})
    notify.connect()
    seen = Seen()
    seen.follow(notify, "camera-config")
    n = seen.got.get(timeout=PATIENCE)
    assert (n.group, n.object, n.version, n.unknown, n.json()) == (
        notify.group_id,
        "camera-config",
        "7",
        False,
        {"iso": 100},
    )
    backend.put_object(notify.group_id, "camera-config")
    assert seen.next() == ("camera-config", "8", False)
    backend.delete_object(notify.group_id, "camera-config")
    assert seen.next() == ("camera-config", "8", True)
    eventually(lambda: notify.status("camera-config") is RegistrationStatus.REGISTERED)
    (found,) = backend.object_registrations(notify.group_id, "camera-config")
    assert (found.recipient, found.online) == (f"{notify.group_id}:unit-1", True)
    assert notify.connected
    assert notify.error is None

    notify.unregister("camera-config")
    assert seen.completed.wait(PATIENCE)
    notify.disconnect()
    assert not notify.connected
    assert notify.registrations == {}
    assert backend.object_registrations(notify.group_id, "camera-config") == []
    assert [c.status and c.status.value for c in changes] == [
        "pending registration",
        "registered",
        "pending unregistration",
        None,
    ]


def test_unit_that_was_away_learns_the_latest_of_each_object(unit: Callable[..., Notify], backend: Client) -> None:
    notify = unit()
    seen = Seen()
    names = ["a", "b", "c"]
    for name in names:
        seen.follow(notify, name)
    notify.connect(timeout=PATIENCE)
    for _ in names:
        assert seen.next()[2]  # nobody has put one yet
    notify.disconnect()
    for _ in range(100):
        for name in names:
            backend.put_object(notify.group_id, name)
    notify.connect()
    assert sorted(seen.next() for _ in names) == [("a", "100", False), ("b", "100", False), ("c", "100", False)]
    notify.disconnect()
    assert seen.got.empty()


def test_restarted_unit_goes_on_from_its_file(unit: Callable[..., Notify], backend: Client, tmp_path: Path) -> None:
    file = tmp_path / "registrations.json"
    first = unit(state=State(filename=file))
    backend.put_object(first.group_id, "a", version=5)
    seen = Seen()
    seen.follow(first, "a")
    first.connect()
    assert seen.next() == ("a", "5", False)
    first.disconnect()
    assert json.loads(file.read_text())["objects"] == {"a": {"status": "registered", "version": "5"}}

    second = unit(state=State(filename=file))
    assert second.registrations["a"].version == 5
    again = Seen()
    again.follow(second, "a")
    second.connect(timeout=PATIENCE)
    backend.put_object(first.group_id, "a")
    assert again.next() == ("a", "6", False)  # and not 5 once more
    second.disconnect()


def test_file_says_registered_while_the_unit_stays_connected(
    unit: Callable[..., Notify], backend: Client, tmp_path: Path
) -> None:
    file = tmp_path / "registrations.json"
    notify = unit(state=State(filename=file))
    backend.put_object(notify.group_id, "a", version=5)
    notify.register("a")  # nobody subscribes: after the confirmation there is nothing to send
    notify.connect(timeout=PATIENCE)
    eventually(lambda: json.loads(file.read_text())["objects"] == {"a": {"status": "registered"}})
    notify.disconnect()


def test_unit_that_lost_its_state_learns_what_is_current(unit: Callable[..., Notify], backend: Client) -> None:
    for _ in range(2):
        notify = unit(state=State(memory=True))
        backend.put_object(notify.group_id, "a", version=5)
        seen = Seen()
        seen.follow(notify, "a")
        notify.connect()
        assert seen.next() == ("a", "5", False)
        notify.disconnect()


def test_version_waits_for_a_subscriber(unit: Callable[..., Notify], backend: Client) -> None:
    notify = unit()
    backend.put_object(notify.group_id, "a", version=2)
    notify.connect(timeout=PATIENCE)
    observable = notify.register("a")
    eventually(lambda: notify.status("a") is RegistrationStatus.REGISTERED)
    assert notify.registrations["a"].version == 0
    got: queue.Queue[Notification] = queue.Queue()
    observable.subscribe(got.put)
    assert got.get(timeout=PATIENCE).version == "2"
    eventually(lambda: notify.registrations["a"].version == 2)


def test_subscriber_that_raises_does_not_acknowledge(unit: Callable[..., Notify], backend: Client) -> None:
    notify = unit()
    notify.connect()
    seen = Seen()
    failed = threading.Event()

    def fail(n: Notification) -> None:
        if not n.unknown and not failed.is_set():
            failed.set()
            raise ValueError("no")

    notify.register("a").subscribe(fail)
    seen.follow(notify, "a")
    assert seen.next() == ("a", "", True)
    backend.put_object(notify.group_id, "a", version=1)
    assert seen.next() == ("a", "1", False)  # the others get theirs
    assert failed.is_set()
    assert notify.registrations["a"].version == 0
    notify.disconnect()
    notify.connect()
    assert seen.next() == ("a", "1", False)
    eventually(lambda: notify.registrations["a"].version == 1)


def test_unit_survives_the_server_being_killed(new_server: NewServer) -> None:
    server = new_server()
    seen = Seen()
    notify = Notify(domain="demo", group_id="g", client_id="u", connection=where(server, heartbeat="5s"))
    seen.follow(notify, "a")
    with Client(server.url, api_key="dev", attempts=30) as backend, notify:
        assert seen.next() == ("a", "", True)
        server.kill()
        eventually(lambda: notify.error is not None)
        server.start()
        backend.put_object("g", "a", version=1)
        while seen.next() != ("a", "1", False):  # it may be told again first that there is none
            pass


def test_sync_reconciles_and_disconnects(unit: Callable[..., Notify], backend: Client) -> None:
    notify = unit()
    backend.put_object(notify.group_id, "a", version=1)
    seen = Seen()
    seen.follow(notify, "a")
    notify.register("b")  # nobody subscribes: what sync returns counts
    backend.put_object(notify.group_id, "b", version=9)
    changed = notify.sync(timeout=PATIENCE, quiet=0.3)
    assert sorted((n.object, n.version) for n in changed) == [("a", "1"), ("b", "9")]
    assert seen.next() == ("a", "1", False)
    assert not notify.connected
    assert {name: r.version for name, r in notify.registrations.items()} == {"a": 1, "b": 9}
    assert notify.sync(timeout=PATIENCE, quiet=0.3) == []
    for _ in range(20):
        backend.put_object(notify.group_id, "a")
    assert [n.version for n in notify.sync(timeout=PATIENCE, quiet=0.3)] == ["21"]

    def acked() -> bool:
        (found,) = backend.object_registrations(notify.group_id, "a")
        return (found.acked_version, found.online) == (21, False)

    eventually(acked)
    notify.unregister("b")
    assert notify.sync(timeout=PATIENCE, quiet=0.3) == []
    assert not [t for t in threading.enumerate() if t.name.startswith(("godwit notify", "godwit subscribers"))]
    assert backend.object_registrations(notify.group_id, "b") == []


def test_sync_makes_the_server_forget_what_the_unit_no_longer_wants(
    unit: Callable[..., Notify], backend: Client
) -> None:
    before = unit(state=State(memory=True))
    before.register("old")
    before.sync(timeout=PATIENCE, quiet=0.1)
    after = unit(state=State(memory=True))  # restarted without its state, with another program
    after.register("new")
    after.sync(timeout=PATIENCE, quiet=0.1)
    assert backend.object_registrations(after.group_id, "old") == []
    assert len(backend.object_registrations(after.group_id, "new")) == 1


def test_sync_of_a_connected_unit_leaves_it_connected(unit: Callable[..., Notify], backend: Client) -> None:
    notify = unit()
    notify.connect()
    notify.register("a")
    backend.put_object(notify.group_id, "a", version=4)
    assert [n.version for n in notify.sync(timeout=PATIENCE, quiet=0.3)][-1:] == ["4"]
    assert notify.connected


def test_sync_without_a_server_says_so(unit: Callable[..., Notify]) -> None:
    notify = unit(connection=Connection(address="127.0.0.1", port=1))
    notify.register("a")
    with pytest.raises(SyncTimeoutError, match=r"not reconciled in 0\.5 s: connect") as caught:
        notify.sync(timeout=0.5)
    assert caught.value.changed == []
    assert isinstance(caught.value, TimeoutError)
    with pytest.raises(TimeoutError, match="no session"):
        notify.connect(timeout=0.2)


def test_refusal_is_told_and_tried_again_later(unit: Callable[..., Notify], server: Server) -> None:
    notify = unit(connection=where(server, token="not.a.token"))
    with pytest.raises(RefusedError):
        notify.sync(timeout=PATIENCE)
    with pytest.raises(RefusedError):
        notify.connect(timeout=PATIENCE)
    assert isinstance(notify.error, RefusedError)
    notify.disconnect()  # without waiting for the next try


def test_forbidden_object_ends_its_observable(unit: Callable[..., Notify], server: Server) -> None:
    def token() -> str:
        arguments = ["--recipient", notify.recipient, "--group", notify.group_id, "--objects", "camera-*"]
        return server.run("token", *arguments).strip()

    notify = unit(connection=where(server, token=token))
    seen = Seen()
    seen.follow(notify, "firmware")
    seen.follow(notify, "camera-config")
    notify.connect()
    error = seen.errors.get(timeout=PATIENCE)
    assert isinstance(error, RegistrationError)
    assert (error.object, error.code) == ("firmware", "forbidden")
    assert seen.next() == ("camera-config", "", True)
    eventually(lambda: notify.status("camera-config") is RegistrationStatus.REGISTERED)
    assert notify.status("firmware") is None


def test_subscriber_may_disconnect(unit: Callable[..., Notify], backend: Client) -> None:
    notify = unit()
    done = threading.Event()

    def on_next(n: Notification) -> None:
        if not n.unknown:
            notify.disconnect()
            done.set()

    notify.register("a").subscribe(on_next)
    notify.connect()
    backend.put_object(notify.group_id, "a", version=1)
    assert done.wait(PATIENCE)
    eventually(lambda: backend.object_registrations(notify.group_id, "a")[0].acked_version == 1)
    eventually(lambda: not notify.connected)


def put(backend: Client) -> bool:
    try:
        return backend.put_object("region-1", "camera-config", version=7).version == 7
    except ProblemError:
        return False


@pytest.mark.parametrize("transport", ["grpc", "websocket"])
def test_program_of_the_contract_with_client_certificates(
    new_server: NewServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, transport: Transport
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("server")
    authority.issue("client", "godwit://animal.observer/region-1/region-1:observer-1")
    tls = ["--tls-cert", str(cert), "--tls-key", str(key), "--tls-client-ca", str(authority.file)]
    server = new_server(*tls)
    api_key = json.loads(server.run("app", "create", "animal.observer", "--json"))["key"]
    trust = ssl.create_default_context(cafile=authority.file)
    address = server.grpc if transport == "grpc" else server.http
    updates: queue.Queue[str] = queue.Queue()
    monkeypatch.chdir(tmp_path)
    with Client(f"https://{server.http}", api_key=api_key, tls=trust) as backend:
        eventually(lambda: put(backend))  # the server knows the new app within a second

        notify = Notify(
            domain="animal.observer",
            group_id="region-1",
            client_id="observer-1",
            state=State(filename="registrations.json"),
            connection=Connection(
                address="localhost",
                port=int(address.rpartition(":")[2]),
                ca_cert="ca.crt",
                cert="client.crt",
                key="client.key",
                transport=transport,
            ),
        )
        notify.connect()
        notify.register("camera-config").subscribe(lambda n: updates.put(n.version))
        assert updates.get(timeout=PATIENCE) == "7"
        notify.unregister("camera-config")
        notify.disconnect()

        assert backend.object_registrations("region-1", "camera-config") == []
        authority.issue("client", "godwit://animal.observer/region-1/region-1:observer-2")  # somebody else's
        notify.register("camera-config")
        with pytest.raises(RefusedError):
            notify.sync(timeout=PATIENCE)


def test_arguments_are_checked(tmp_path: Path) -> None:
    for wrong in ({"domain": "a:b"}, {"group_id": "a:b"}, {"client_id": "a:b"}):
        names = {"domain": "demo", "group_id": "g", "client_id": "u", **wrong}
        with pytest.raises(ValueError, match="contains a colon"):
            Notify(domain=names["domain"], group_id=names["group_id"], client_id=names["client_id"])
    with pytest.raises(ValueError, match="is not a name"):
        Notify(domain="demo", group_id="g", client_id="two words")
    with pytest.raises(ValueError, match="needs its key"):
        Connection(cert="client.crt")
    with pytest.raises(ValueError, match="without TLS"):
        Connection(ca_cert="ca.crt", tls=False)
    with pytest.raises(ValueError, match="neither"):
        Connection(transport="pigeon")  # type: ignore[arg-type]
    missing = Notify(
        domain="demo", group_id="g", client_id="u", connection=Connection(ca_cert=tmp_path / "no such file")
    )
    with pytest.raises(OSError, match="No such file"):
        missing.connect()
    assert Connection(address="::1", port=1).target == "[::1]:1"
