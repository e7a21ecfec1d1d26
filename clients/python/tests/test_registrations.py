"""Client and server come to agree on registrations, whatever is lost on the way."""

from __future__ import annotations

import random

import pytest

from godwit import Change, RegistrationStatus
from godwit.digest import EMPTY_DIGEST, digest_of
from godwit.frames import ClientFrame, ObjectAck, ObjectFrame, Register, Registered, RegistrationFailed, Unregister
from godwit.registrations import MAX_OBJECTS_PER_FRAME, Keeper, Verdict
from godwit.state import Registration

PENDING = RegistrationStatus.PENDING_REGISTRATION
REGISTERED = RegistrationStatus.REGISTERED
LEAVING = RegistrationStatus.PENDING_UNREGISTRATION


def digest(*names: str) -> str:
    return digest_of(("g", name) for name in names)


def kept(**versions: int) -> dict[str, Registration]:
    return {name: Registration(REGISTERED, version) for name, version in versions.items()}


def test_nothing_is_sent_before_the_server_has_said_what_it_knows() -> None:
    k = Keeper("g")
    assert k.register(["a", "b"])
    assert k.take() == []
    k.welcomed(EMPTY_DIGEST)
    assert k.take() == [Register(("a", "b"))]
    assert k.registrations()["a"].status is PENDING
    k.registered(Registered(("a", "b"), digest("a", "b")))
    assert {r.status for r in k.registrations().values()} == {REGISTERED}
    assert k.agreed


def test_equal_digests_settle_what_is_pending_without_a_word() -> None:
    k = Keeper("g", kept(a=3))
    k.unregister(["a"])
    assert k.registrations()["a"].status is LEAVING
    k.welcomed(EMPTY_DIGEST)  # the server had unregistered it, but the confirmation was lost
    assert k.take() == []
    assert k.registrations() == {}
    assert k.take_changes() == [Change("a", LEAVING), Change("a", None)]


def test_client_that_knows_no_version_asks_though_the_sets_are_equal() -> None:
    k = Keeper("g")
    k.register(["a"])
    k.welcomed(digest("a"))  # the server remembers this client, which has lost all it knew
    assert k.registrations()["a"].status is REGISTERED
    assert k.take() == [Register(("a",))]
    k.ponged(digest("a"))
    assert k.take() == []  # once on a connection
    k.handled("a", 7, unknown=False)
    k.disconnected()
    k.welcomed(digest("a"))
    assert k.take() == []


def test_other_digest_makes_a_reset_of_the_whole_set() -> None:
    k = Keeper("g", kept(a=1, b=2))
    k.welcomed(digest("a", "stray"))
    assert k.take() == [Register(("a", "b"), reset=True)]
    assert not k.agreed
    k.registered(Registered(("a", "b"), digest("a", "b")))
    assert k.agreed


def test_server_that_cannot_say_yet_gets_no_reset() -> None:
    k = Keeper("g", kept(a=1))
    k.register(["b"])
    k.welcomed("")
    assert k.take() == [Register(("b",))]
    k.registered(Registered(("b",), digest("a", "b")))
    assert k.agreed


def test_large_reset_comes_in_parts_and_is_complete_only_with_the_last() -> None:
    names = [f"o{i:04}" for i in range(2 * MAX_OBJECTS_PER_FRAME + 1)]
    k = Keeper("g", {name: Registration(REGISTERED, 1) for name in names})
    k.welcomed(EMPTY_DIGEST)
    frames = [f for f in k.take() if isinstance(f, Register)]
    assert [f.reset for f in frames] == [True] * 3
    assert [f.more for f in frames] == [True, True, False]
    assert [n for f in frames for n in f.objects] == names


def test_empty_set_is_a_reset_too() -> None:
    k = Keeper("g", {})
    k.welcomed(digest("stray"))
    assert k.take() == [Register((), reset=True)]


def test_restarted_client_waits_a_heartbeat_before_it_resets() -> None:
    k = Keeper("g")
    k.register(["a"])
    k.welcomed(digest("a", "b"))  # the program is going to want b, too
    assert k.take() == [Register(("a",))]
    k.registered(Registered(("a",), digest("a", "b")))
    assert k.take() == []
    k.register(["b"])
    k.take()
    k.registered(Registered(("b",), digest("a", "b")))
    assert k.agreed
    other = Keeper("g")
    other.register(["a"])
    other.welcomed(digest("a", "b"))
    other.take()
    other.ping_digest()
    other.ponged(digest("a", "b"))  # a heartbeat later it does not
    assert other.take() == [Register(("a",), reset=True)]


def test_confirmation_that_contradicts_is_resolved() -> None:
    k = Keeper("g", kept(a=1))
    k.welcomed(digest("a"))
    k.unregister(["a"])
    assert k.take() == [Unregister(("a",))]
    k.registered(Registered((), EMPTY_DIGEST))
    assert k.registrations() == {}
    k.registered(Registered(("a",), digest("a")))  # overtaken on its way
    assert k.take() == [Unregister(("a",))]
    k.registered(Registered(("a",), digest("a")))
    assert k.take() == []  # once, until the next heartbeat: else both would go on for ever


def test_answers_to_a_ping_sent_before_a_change_start_no_reset() -> None:
    k = Keeper("g", kept(a=1))
    k.welcomed(digest("a"))
    k.ping_digest()
    k.register(["b"])
    assert k.take() == [Register(("b",))]
    k.ponged(digest("a"))
    assert k.take() == []
    k.ping_digest()
    k.ponged(digest("a"))  # it was asked after the change and still does not have it
    assert k.take() == [Register(("a", "b"), reset=True)]


def test_server_that_lost_its_state_is_noticed_at_the_next_heartbeat() -> None:
    k = Keeper("g", kept(a=1))
    k.welcomed(digest("a"))
    assert k.agreed
    k.ping_digest()
    k.ponged(EMPTY_DIGEST)
    assert not k.agreed
    assert k.take() == [Register(("a",), reset=True)]


def test_permanent_failure_leaves_the_set() -> None:
    k = Keeper("g", {})
    k.register(["a", "b"])
    k.welcomed(EMPTY_DIGEST)
    k.take()
    k.take_changes()
    k.failed(RegistrationFailed(("b",), "forbidden"))
    assert set(k.registrations()) == {"a"}
    assert k.digest == digest("a")
    assert k.take_changes() == [Change("b", None, "forbidden")]


def test_transient_failure_is_tried_again_when_it_is_time() -> None:
    k = Keeper("g", {})
    k.register(["a"])
    k.welcomed(EMPTY_DIGEST)
    k.take()
    k.failed(RegistrationFailed(("a",), "unavailable", transient=True))
    assert k.delayed
    assert k.take() == []
    k.retry()
    assert k.take() == [Register(("a",))]


def test_answers_about_another_group_change_nothing() -> None:
    k = Keeper("g", {})
    k.register(["a"])
    k.welcomed(EMPTY_DIGEST)
    k.take()
    k.registered(Registered(("a",), digest_of([("other", "a")]), "other"))
    k.failed(RegistrationFailed(("a",), "forbidden", group="other"))
    assert k.registrations()["a"].status is PENDING
    assert k.received(ObjectFrame(group="other", object="a", version=1)) is Verdict.IGNORE


def test_versions_only_grow_and_acknowledgements_carry_them() -> None:
    k = Keeper("g", kept(a=5))
    k.welcomed(digest("a"))
    assert k.received(ObjectFrame(object="a", version=6)) is Verdict.DELIVER
    k.handled("a", 6, unknown=False)
    assert k.take() == [ObjectAck("a", 6)]
    assert k.received(ObjectFrame(object="a", version=5)) is Verdict.REPEAT
    assert k.take() == [ObjectAck("a", 6)]  # not of the older one
    k.handled("a", 4, unknown=False)
    assert k.registrations()["a"].version == 6
    assert k.received(ObjectFrame(object="b", version=1)) is Verdict.IGNORE


def test_unknown_is_always_told_and_never_acknowledged() -> None:
    k = Keeper("g", kept(a=5))
    k.welcomed(digest("a"))
    assert k.received(ObjectFrame(object="a", version=5, unknown=True)) is Verdict.DELIVER
    k.handled("a", 5, unknown=True)
    assert k.take() == []
    assert k.registrations()["a"] == Registration(REGISTERED, 5, unknown=True)
    k.handled("a", 6, unknown=False)
    assert k.registrations()["a"] == Registration(REGISTERED, 6)


def test_registering_again_asks_for_the_version() -> None:
    k = Keeper("g", kept(a=5))
    k.welcomed(digest("a"))
    k.unregister(["a"])
    k.register(["a"])
    k.registered(Registered((), digest("a")))
    assert k.take() == [Register(("a",))]
    assert k.received(ObjectFrame(object="a", version=5)) is Verdict.DELIVER


def test_names_are_checked() -> None:
    with pytest.raises(ValueError, match="is not a name"):
        Keeper("g").register(["two words"])


class Model:
    """A server for one device: what it registers, and the newest versions."""

    def __init__(self, versions: dict[str, int]) -> None:
        self.versions = versions
        self.wipe()

    def wipe(self) -> None:
        self.objects: dict[str, int] = {}  # with the acknowledged version
        self.staged: list[str] | None = None

    @property
    def digest(self) -> str:
        return digest(*self.objects)

    def take(self, frame: ClientFrame) -> list[Registered]:
        match frame:
            case Register(reset=True) | Register() if frame.reset or self.staged is not None:
                self.staged = [*(self.staged or []), *frame.objects]
                if frame.more:
                    return []
                self.objects = dict.fromkeys(self.staged, 0)
                self.staged = None
                return [Registered(frame.objects, self.digest)]
            case Register():
                self.objects.update(dict.fromkeys(frame.objects, 0))
                return [Registered(frame.objects, self.digest)]
            case Unregister():
                for name in frame.objects:
                    self.objects.pop(name, None)
                return [Registered((), self.digest)]
            case ObjectAck():
                if frame.object in self.objects:
                    self.objects[frame.object] = max(self.objects[frame.object], frame.version)
        return []

    def news(self) -> list[ObjectFrame]:
        return [
            ObjectFrame(object=name, version=self.versions[name])
            for name, acked in self.objects.items()
            if self.versions.get(name, 0) > acked
        ]


@pytest.mark.parametrize("seed", range(60))
def test_they_agree_in_the_end(seed: int) -> None:
    """Thousands of random steps, then quiet: the client knows the newest version of exactly what it wants."""
    dice = random.Random(seed)
    names = [f"o{i}" for i in range(8)]
    versions: dict[str, int] = {}
    server = Model(versions)
    k = Keeper("g")
    wanted: set[str] = set()
    shown: dict[str, int] = {}
    online = False
    sent: list[ClientFrame] = []  # underway to the server
    back: list[Registered | ObjectFrame | str] = []  # underway to the client; a text is a pong

    def to_server() -> None:
        frame = sent.pop(0)
        back.extend(server.take(frame))

    def to_client() -> None:
        match back.pop(0):
            case str() as pong:
                k.ponged(pong)
            case Registered() as frame:
                k.registered(frame)
            case ObjectFrame() as frame:
                if k.received(frame) is Verdict.DELIVER:
                    assert frame.version > shown.get(frame.object, 0)
                    shown[frame.object] = frame.version
                    k.handled(frame.object, frame.version, unknown=False)

    def connect() -> None:
        server.staged = None
        k.welcomed(server.digest)
        back.extend(server.news())

    def beat() -> None:
        while sent:
            to_server()
        k.ping_digest()
        back.append(server.digest)

    for _ in range(1500):
        match dice.randrange(12):
            case 0 | 1:
                name = dice.choice(names)
                k.register([name])
                if name not in wanted:
                    shown.pop(name, None)  # what was known of it belongs to the time before
                wanted.add(name)
            case 2:
                name = dice.choice(names)
                k.unregister([name])
                wanted.discard(name)
            case 3:
                name = dice.choice(names)
                versions[name] = versions.get(name, 0) + dice.randint(1, 3)
                if online:
                    back.extend(o for o in server.news() if o.object == name)
            case 4 if not online:
                connect()
                online = True
            case 5 if online and dice.random() < 0.3:
                k.disconnected()
                sent.clear()  # lost on their way
                back.clear()
                online = False
            case 6 if dice.random() < 0.1:
                server.wipe()
            case 7 if dice.random() < 0.1:
                state = dict(k.registrations()) if dice.random() < 0.5 else None
                k = Keeper("g", state)  # restarted, with or without what it had kept
                if state is None:
                    shown.clear()
                k.register(wanted)
                sent.clear()
                back.clear()
                online = False
            case 8 if online:
                beat()
            case _ if online:
                sent.extend(k.take())
                for _ in range(dice.randint(0, 3)):
                    if sent:
                        to_server()
                    if back:
                        to_client()
    if not online:
        connect()
    for _ in range(4):  # heartbeats without disturbance
        for _ in range(20):
            sent.extend(k.take())
            while sent:
                to_server()
            back.extend(server.news())
            while back:
                to_client()
        beat()
    assert k.agreed
    assert set(server.objects) == wanted == set(k.registrations())
    assert {n: v for n, v in shown.items() if n in wanted} == {n: v for n, v in versions.items() if n in wanted}
