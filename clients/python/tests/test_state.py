"""Where registrations are kept."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from godwit import Registration, RegistrationStatus, State, StateError

OWNER = {"app": "demo", "recipient": "g:a", "group": "g", "device": "unit"}
SOME = {
    "a": Registration(RegistrationStatus.REGISTERED, 2**63 - 1),
    "b": Registration(RegistrationStatus.PENDING_REGISTRATION),
    "c": Registration(RegistrationStatus.PENDING_UNREGISTRATION, 3, unknown=True),
}


def test_file_gives_back_what_was_kept(tmp_path: Path) -> None:
    file = tmp_path / "registrations.json"
    state = State(file)
    assert state.load(**OWNER) is None
    state.save(SOME)
    assert State(file).load(**OWNER) == SOME
    assert os.listdir(tmp_path) == ["registrations.json"]


def test_memory_gives_it_back_to_the_same_program() -> None:
    state = State(memory=True)
    assert state.load(**OWNER) is None
    state.save(SOME)
    assert state.load(**OWNER) == SOME


def test_file_is_complete_though_writing_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "registrations.json"
    state = State(file)
    state.load(**OWNER)
    state.save(SOME)

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StateError, match="No space left"):
        state.save({})
    assert State(file).load(**OWNER) == SOME


def test_unchanged_state_is_not_written_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    state = State(tmp_path / "registrations.json")
    state.load(**OWNER)
    state.save(SOME)
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("written again"))
    state.save(SOME)


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"format":1}', "\ud800", '{"format":1,"objects":{"a":{"status":"x"}}}']
)
def test_damaged_file_is_moved_aside(tmp_path: Path, text: str) -> None:
    file = tmp_path / "registrations.json"
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    state = State(file)
    assert state.load(**OWNER) is None
    assert (tmp_path / "registrations.json.bad").exists()
    state.save(SOME)
    assert State(file).load(**OWNER) == SOME


def test_file_of_another_client_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "registrations.json"
    state = State(file)
    state.load(**OWNER)
    state.save(SOME)
    with pytest.raises(StateError, match="belongs to another client"):
        State(file).load(**{**OWNER, "recipient": "g:b"})
    with pytest.raises(StateError, match="used by another client"):
        state.load(**{**OWNER, "recipient": "g:b"})


def test_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    file = tmp_path / "registrations.json"
    file.write_text(json.dumps({"format": 2, **OWNER, "objects": {}}))
    with pytest.raises(StateError, match="format 2"):
        State(file).load(**OWNER)
    assert file.exists()


def test_folder_must_exist(tmp_path: Path) -> None:
    state = State(tmp_path / "none" / "registrations.json")
    state.load(**OWNER)
    with pytest.raises(StateError, match="write state"):
        state.save(SOME)


def test_it_is_either_a_file_or_memory() -> None:
    with pytest.raises(ValueError, match="either"):
        State()
    with pytest.raises(ValueError, match="either"):
        State("file", memory=True)
