"""The small parts."""

from __future__ import annotations

import base64
import json
from datetime import UTC, datetime, timedelta, timezone
from email.utils import format_datetime

import pytest

from godwit import Problem, Token
from godwit.backoff import Backoff
from godwit.errors import retry_after
from godwit.frames import Ack, Nack
from godwit.http import path, read_problem
from godwit.jsonframes import decode_json
from godwit.outbox import Outbox
from godwit.proto import from_proto
from godwit.publication import encode_data, new_id
from godwit.seen import IdSet
from godwit.unread import Unread, cut_reason, unread
from godwit.v1 import client_pb2 as pb
from godwit.values import format_duration, format_time, parse_version, seconds


def test_backoff_is_random_below_a_bound_that_doubles() -> None:
    samples = []
    for _ in range(200):
        wait = Backoff(1.0, 300.0)
        samples.append([wait.next() for _ in range(12)])
    for i, bound in enumerate([1, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]):
        column = [s[i] for s in samples]
        assert max(column) <= bound
        assert max(column) > 0.8 * bound  # it uses the whole range,
        assert min(column) < 0.2 * bound  # from nothing on
    wait.reset()
    assert wait.next() <= 1.0


def test_ids_are_ulids_that_sort_by_time() -> None:
    ids = [new_id() for _ in range(1000)]
    assert len(set(ids)) == 1000
    assert all(len(i) == 26 and set(i) <= set("0123456789ABCDEFGHJKMNPQRSTVWXYZ") and i[0] <= "7" for i in ids)
    assert [i[:10] for i in ids] == sorted(i[:10] for i in ids)


def test_memory_of_ids_is_bounded_and_forgets_the_oldest() -> None:
    seen = IdSet(3)
    for name in "abcad":
        seen.add(name)
    assert [name in seen for name in "abcd"] == [False, True, True, True]
    assert len(seen) == 3


class Sending:
    """An outbox, and a writer that looks when it is woken and when something is due, at a time of the test's own."""

    def __init__(self, delay: float, window: int = 0) -> None:
        self.now = 100.0
        self.outbox = Outbox(delay, window, lambda: self.now)
        self.outbox.wake = self.look
        self.sent: list[str] = []

    def look(self, *, last: bool = False) -> None:
        for frame in self.outbox.take(last=last):
            self.sent.append(" ".join(frame.ids) if isinstance(frame, Ack | Nack) else type(frame).__name__)

    def acks(self, *names: str) -> list[str]:
        for name in names:
            self.outbox.ack(name)
        return self.sent

    def passes(self, seconds: float) -> None:
        end = self.now + seconds
        while (due := self.now + self.outbox.due_in()) <= end:
            self.now = due
            self.look()
        self.now = end


def test_a_lone_acknowledgement_leaves_at_once_and_those_that_follow_leave_together() -> None:
    s = Sending(0.005)
    assert s.acks("a") == ["a"]
    assert s.acks("b", "c") == ["a"]
    s.passes(0.004)
    assert s.acks("d") == ["a"]
    s.passes(0.002)
    assert s.acks("e") == ["a", "b c d"]
    s.passes(0.02)
    assert s.acks("f") == ["a", "b c d", "e", "f"]


def test_acknowledgements_do_not_wait_where_the_server_does_or_something_else_leaves_or_at_the_end() -> None:
    s = Sending(0.005, window=4)
    assert s.acks("a", "b", "c", "d") == ["a", "b c"]
    s.outbox.nack(Nack(("e",)))
    assert s.sent == ["a", "b c", "d", "e"]
    s.acks("f")
    s.look(last=True)
    assert s.sent == ["a", "b c", "d", "e", "f"]
    assert Sending(0.0).acks("a", "b") == ["a", "b"]
    assert Sending(0.005, window=1).acks("a", "b") == ["a", "b"]


def test_acknowledgements_of_a_burst_share_frames() -> None:
    outbox = Outbox(0.005)
    for i in range(300):
        outbox.ack(str(i))
    frames = outbox.take()
    assert [len(f.ids) for f in frames] == [256, 44]  # type: ignore[union-attr]
    assert outbox.take(last=True) == []
    assert outbox.due_in() == float("inf")


def jwt(exp: object) -> str:
    def part(value: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256'})}.{part({'sub': 'a', 'exp': exp})}.sig"


def test_token_is_renewed_when_nine_tenths_are_over() -> None:
    now = 1_800_000_000.0
    assert Token(jwt(now + 100)).renew_in(now) == pytest.approx(90)
    assert Token("opaque", datetime.fromtimestamp(now + 50, UTC)).renew_in(now) == pytest.approx(45)
    for never in (Token("opaque"), Token(jwt("soon")), Token(jwt(now - 1)), Token("a.b.c"), Token("a.!.c")):
        assert never.renew_in(now) is None
    assert "opaque" not in repr(Token("opaque"))


def test_values_as_the_protocol_writes_them() -> None:
    assert format_duration(timedelta(minutes=1, milliseconds=5)) == "60005ms"
    assert format_duration(2.5) == "2500ms"
    assert format_duration("soon") == "soon"  # the server says what is wrong with it
    assert seconds("1h30m") == 5400
    east = timezone(timedelta(hours=2))
    assert format_time(datetime(2026, 11, 21, 2, 0, 0, 123_456, tzinfo=east)) == "2026-11-21T00:00:00.123Z"
    assert parse_version("9223372036854775807") == 2**63 - 1
    for wrong in ("0", "-1", "9223372036854775808", "1.5", "", 0):
        with pytest.raises(ValueError, match="version"):
            parse_version(wrong)


def test_parts_of_a_path_are_escaped() -> None:
    assert path("v1", "recipients", "region-1:a/b?c") == "/v1/recipients/region-1%3Aa%2Fb%3Fc"


def test_problem_is_read_whatever_answers() -> None:
    body = b'{"type":"/problems/busy","title":"Busy","status":503,"detail":"no room","field":"to"}'
    problem = read_problem(503, body, "7")
    assert problem == Problem(
        status=503, type="/problems/busy", title="Busy", detail="no room", field="to", retry_after=7
    )
    assert problem.temporary
    proxy = read_problem(502, b"<html>Bad gateway</html>", None)
    assert str(proxy) == "server answered 502: <html>Bad gateway</html>"
    assert not read_problem(404, b"[]", None).temporary


def test_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after("120") == 120
    assert 50 < retry_after(format_datetime(datetime.now(UTC) + timedelta(seconds=60), usegmt=True)) <= 60
    for nothing in (None, "", "soon", "-5"):
        assert retry_after(nothing) == 0


def test_frames_of_a_later_server_are_passed_over() -> None:
    assert decode_json('{"dance":{}}') is None
    assert from_proto(pb.ServerFrame()) is None
    for malformed in ("[]", "{}", '{"pong":{},"ack":{}}', '{"pong":1}', "nonsense"):
        assert isinstance(decode_json(malformed), Unread)


def test_data_that_is_not_said_to_be_anything_is_what_it_looks_like() -> None:
    assert encode_data(None) == {}
    assert encode_data({"a": 1})["data"] == {"a": 1}
    assert encode_data(b'{"a":1}')["data"] == {"a": 1}
    assert encode_data(b"NaN") == {"data": "NaN", "content_type": "text/plain; charset=utf-8"}
    assert encode_data(b"\xff") == {"data_base64": "/w==", "content_type": "application/octet-stream"}


def test_what_cannot_be_read_is_asked_for_later_each_time() -> None:
    for attempt, pause in ((1, 10), (2, 20), (5, 160), (6, 300), (None, 300), (0, 300), ("many", 300), (2**31, 300)):
        assert unread("title: no", {"id": "x", "attempt": attempt}, kind="notification").pause == pause


def test_reason_is_one_that_the_server_takes() -> None:
    assert cut_reason("because") == "because"
    assert cut_reason("half \ud800") == "half ?"
    assert cut_reason("é" * 501) == "é" * 500
