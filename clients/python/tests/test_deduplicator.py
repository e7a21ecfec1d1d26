"""What came by several ways is shown once."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from godwit import AsyncClient, Deduplicator, Escalation, Publication, StateError
from test_vectors import cases


class Device:
    """Does with notifications what a program with a Deduplicator does."""

    def __init__(self, file: Path | None) -> None:
        self.file = file
        self.ahead = timedelta()
        self.tokens: dict[str, str] = {}
        self.post: dict[str, Any] | None = None
        self.start()

    def start(self) -> None:
        self.seen = Deduplicator(self.file, now=lambda: datetime.now(UTC) + self.ahead)

    def show(self, name: str) -> list[str]:
        if self.seen.seen(name):
            return []
        self.seen.shown(name)
        return ["show"]

    def live(self, step: dict[str, Any], _: str) -> list[str]:
        return self.show(step["id"])

    def recall(self, step: dict[str, Any], _: str) -> list[str]:
        return ["close"] if self.seen.settled(step["id"]) else []

    def clicked(self, step: dict[str, Any], _: str) -> list[str]:
        if not self.seen.settled(step["id"]):
            return []
        if token := self.tokens.get(step["id"]):
            self.post = {"tokens": [token], "event": step["on"]}
            return ["close", "post"]
        return ["close"]

    dismissed = clicked

    def push(self, step: dict[str, Any], channel: str) -> list[str]:
        message = step[channel]
        recalled = message.get("godwit_recall") or (message["godwit_id"] if message.get("recall") else "")
        if recalled:
            name = recalled[0] if isinstance(recalled, list) else recalled
            return ["close"] if self.seen.settled(name) else []
        name = message["godwit_id"]
        if token := message.get("godwit_ack", ""):
            self.tokens[name] = token
        did = self.show(name)
        if did and message.get("godwit_settle") == "shown":
            self.post = {"tokens": [token], "event": "shown"}
            did.append("post")
        return did

    def others(self, step: dict[str, Any], _: str) -> list[str]:
        for i in range(step["count"]):
            self.show(f"{id(step)}-{i}")
        return []

    def later(self, step: dict[str, Any], _: str) -> list[str]:
        self.ahead += timedelta(hours=step["hours"])
        return []

    def restart(self, _step: dict[str, Any], _: str) -> list[str]:
        self.start()
        return []


@pytest.mark.parametrize("channel", ["webpush", "fcm", "apns"])
@pytest.mark.parametrize("case", cases("push"))
def test_push(case: dict[str, Any], channel: str, tmp_path: Path) -> None:
    many = any(step["on"] == "others" for step in case["steps"])  # would be 500 files, synced
    device = Device(None if many else tmp_path / "seen.json")
    for i, step in enumerate(case["steps"]):
        device.post = None
        do: Callable[[dict[str, Any], str], list[str]] = getattr(device, step["on"])
        assert (i, do(step, channel), device.post) == (i, step["want"], step.get("post"))


def test_what_is_shown_is_listed(tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    file.write_text('{"format":1,"ids":[{"id":')  # cannot be understood
    seen = Deduplicator(file)
    for name in ["a", "b", "c"]:
        seen.shown(name)
    seen.settled("b")
    assert Deduplicator(file).held() == ["a", "c"]
    assert [e["id"] for e in json.loads(file.read_text())["ids"]] == ["a", "c", "b"]


def test_a_file_of_another_language_is_read(tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.123Z")
    file.write_text(json.dumps({"format": 1, "ids": [{"id": "a"}, {"id": "b", "settled": at}]}))
    seen = Deduplicator(file)
    assert seen.seen("a")
    assert seen.settled("a")
    assert seen.seen("b")
    assert not seen.settled("b")


def test_a_file_of_a_later_version_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "seen.json"
    file.write_text('{"format":2,"ids":[]}')
    with pytest.raises(StateError, match="later version"):
        Deduplicator(file)


@pytest.mark.anyio
async def test_many_tokens_go_in_requests_that_the_server_takes() -> None:
    bodies: list[dict[str, Any]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        assert (request.url.path, request.headers.get("Authorization")) == ("/v1/acks", None)
        bodies.append(json.loads(request.content))
        return httpx.Response(200, json={"acked": 7})

    async with httpx.AsyncClient(transport=httpx.MockTransport(answer)) as http:
        client = AsyncClient("http://server", http=http)
        assert await client.ack_tokens([str(i) for i in range(101)], "clicked") == 14
        assert await client.ack_tokens(["t"]) == 7
    assert [len(b["tokens"]) for b in bodies] == [100, 1, 1]
    assert [b.get("event") for b in bodies] == ["clicked", "clicked", None]


def test_steps_are_written_as_the_server_takes_them() -> None:
    steps = [Escalation("live"), Escalation("webhook", "5s", settle="shown", withdraw=False, to="sms")]
    assert Publication(to="ann", escalate=steps).to_json()["escalate"] == [
        {"channel": "live", "after": "0ms"},
        {"channel": "webhook", "after": "5s", "settle": "shown", "withdraw": False, "to": "sms"},
    ]
