"""What the server sent and this client cannot read: whose it is, and what is wrong with it."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from .errors import UndecodableError
from .values import check_name

__all__ = ["MemberError", "Unread", "cut_reason", "read_value", "split", "unread"]

# A notification that cannot be read may be readable to the next version of the program, but hardly at once. In seconds.
_PAUSE = 10.0
_LONGEST_PAUSE = 300.0

# The server refuses reasons above 1,000 bytes.
_MOST_REASON = 1000


class MemberError(ValueError):
    """What is wrong with one member of a frame. It quotes nothing of it: the reason ends in logs."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")


@dataclass(frozen=True, slots=True)
class Unread:
    """Stands for a frame that cannot be read."""

    error: UndecodableError
    pause: float = _LONGEST_PAUSE
    """How many seconds the server is asked to keep the notification: it doubles with every attempt."""


def unread(reason: str, fields: Mapping[str, Any] | None = None, *, kind: str = "") -> Unread:
    """Say that a frame cannot be read, whose it is as far as its fields tell, and when to try again."""
    fields = fields or {}
    if kind == "object":
        group, name = fields.get("group"), fields.get("object")
        label = f"{group if _is_name(group) else ''}/{name}" if _is_name(name) else ""
        return Unread(UndecodableError(reason, object=label))
    name = fields.get("id")
    if kind != "notification" or not _is_name(name):
        return Unread(UndecodableError(reason))
    attempt = fields.get("attempt")
    early = isinstance(attempt, int) and 1 <= attempt <= 5
    pause = _PAUSE * 2.0 ** (int(attempt or 1) - 1) if early else _LONGEST_PAUSE
    return Unread(UndecodableError(reason, id=str(name)), pause)


def _is_name(name: object) -> bool:
    try:
        return isinstance(name, str) and bool(check_name("name", name))
    except ValueError:
        return False


def cut_reason(text: str) -> str:
    """Return a reason that the server takes."""
    return text.encode(errors="replace")[:_MOST_REASON].decode(errors="ignore")


class _NotJSONError(ValueError):
    pass


def _refuse(_: str) -> NoReturn:
    raise _NotJSONError  # NaN and the infinities


def _finite(text: str) -> float:
    number = float(text)
    if math.isinf(number):
        raise ValueError("too large")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def read_value(text: str | bytes, name: str = "frame") -> Any:
    """Read JSON, or raise a MemberError of that name."""
    try:
        if isinstance(text, bytes):
            text = text.decode()
        return _DECODER.decode(text)
    except RecursionError:
        what = "is nested too deeply"
    except UnicodeError:
        what = "is not UTF-8"
    except (json.JSONDecodeError, _NotJSONError):
        what = "is not JSON"
    except ValueError:  # Python reads at most 4,300 digits, and floats end at 1.8e308
        what = "has a number that is too large"
    raise MemberError(name, what)


_STRING = re.compile(r'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_MARK = re.compile(r'[]["{},]')
_SPACE = re.compile(r"[ \t\r\n]*")


def split(text: str) -> tuple[str, dict[str, str], bool]:
    """Take {"name":{...}} apart without looking at values beyond where they end.

    So neither their depth nor what they say matters. Of a frame that breaks off this returns what came before, and
    False.
    """
    parts = _Splitter(text)
    members: dict[str, str] = {}
    name = parts.name() if parts.take("{") else None
    if name is None or not parts.take("{"):
        return "", members, False
    while not parts.take("}"):
        key = parts.name()
        value = parts.value() if key is not None else None
        if key is None or value is None:
            return name, members, False
        members[key] = value
        if not (parts.take(",") or parts.next("}")):
            return name, members, False
    return name, members, parts.take("}") and parts.at_end()


class _Splitter:
    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0

    def next(self, mark: str) -> bool:
        """Whether that comes next."""
        self._skip()
        return self._text.startswith(mark, self._at)

    def at_end(self) -> bool:
        """Whether nothing comes next."""
        self._skip()
        return self._at == len(self._text)

    def _skip(self) -> None:
        space = _SPACE.match(self._text, self._at)
        assert space is not None
        self._at = space.end()

    def take(self, mark: str) -> bool:
        """Take that, if it comes next."""
        found = self.next(mark)
        self._at += len(mark) * found
        return found

    def name(self) -> str | None:
        """Take a member's name and its colon."""
        self._skip()
        found = _STRING.match(self._text, self._at)
        if found is None:
            return None
        self._at = found.end()
        try:
            name = json.loads(found[0])
        except ValueError:
            return None
        return name if self.take(":") else None

    def value(self) -> str | None:
        """Take whatever stands up to where it ends."""
        self._skip()
        start, depth = self._at, 0
        at = start
        while found := _MARK.search(self._text, at):
            mark, at = found[0], found.end()
            if mark == '"':
                string = _STRING.match(self._text, found.start())
                if string is None:
                    return None
                at = string.end()
            elif mark in "[{":
                depth += 1
            elif depth == 0:
                self._at = found.start()
                return self._text[start : self._at].strip(" \t\r\n") or None
            elif mark != ",":
                depth -= 1
        return None
