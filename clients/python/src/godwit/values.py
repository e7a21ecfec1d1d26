"""Names, times and durations as the protocol writes them."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta

__all__ = [
    "Duration",
    "check_name",
    "check_topic",
    "format_duration",
    "format_time",
    "parse_duration",
    "parse_time",
    "parse_version",
]

Duration = timedelta | float | str
"""A time span: a timedelta, seconds, or text such as "30s", "24h", "7d", "1h30m"."""

_NAME = re.compile(r"[A-Za-z0-9._:@+-]{1,128}")
_TOKEN = re.compile(r"[A-Za-z0-9_:@+%-]+")
_MOST_TOPIC = 255
_MOST_TOKENS = 16
_PART = re.compile(r"([0-9]+(?:\.[0-9]*)?|\.[0-9]+)(ms|s|m|h|d)")
_MILLIS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
# The server counts durations in 64-bit nanoseconds.
_MOST_MILLIS = (2**63 - 1) // 1_000_000
_MOST_VERSION = 2**63 - 1


def check_name(what: str, name: str) -> str:
    """Return a name that is one: 1 to 128 bytes of A-Za-z0-9._:@+- (an app, recipient, id, group, object, device)."""
    if not _NAME.fullmatch(name) or name in (".", ".."):
        raise ValueError(
            f"{what} {name[:64]!r} is not a name: 1 to 128 characters of A-Z a-z 0-9 . _ : @ + -, not . or .. alone"
        )
    return name


def check_topic(pattern: str) -> str:
    """Return a topic, or a pattern of topics, that is one."""
    tokens = pattern.split(".")
    if len(pattern) > _MOST_TOPIC or len(tokens) > _MOST_TOKENS:
        raise ValueError(f"topic {pattern[:64]!r} has more than {_MOST_TOPIC} bytes or {_MOST_TOKENS} tokens")
    for i, token in enumerate(tokens):
        wild = token == "*" or (token == ">" and i == len(tokens) - 1)
        if not wild and not _TOKEN.fullmatch(token):
            raise ValueError(
                f"topic {pattern[:64]!r} has a token {token[:32]!r}: allowed are A-Z a-z 0-9 _ : @ + -, wildcards alone"
            )
    return pattern


def parse_duration(text: str) -> timedelta:
    """Read a duration as the protocol writes it: a number with a unit, or whole seconds."""
    if re.fullmatch(r"[0-9]+", text):
        millis = float(text) * 1000
    else:
        parts = list(_PART.finditer(text))
        if not parts or "".join(p.group() for p in parts) != text:
            raise ValueError(f'{text!r} is not a duration like "30s", "24h" or "7d"')
        millis = math.fsum(float(p[1]) * _MILLIS[p[2]] for p in parts)
    if millis > _MOST_MILLIS:
        raise ValueError(f"duration {text!r} is too long")
    return timedelta(milliseconds=millis)


def seconds(d: Duration) -> float:
    """Return a duration in seconds."""
    if isinstance(d, str):
        d = parse_duration(d)
    if isinstance(d, timedelta):
        d = d.total_seconds()
    return float(d)


def format_duration(d: Duration) -> str:
    """Write a duration for the protocol. Text is left as it is: the server says what is wrong with it."""
    return d if isinstance(d, str) else f"{round(seconds(d) * 1000)}ms"


def parse_time(text: str) -> datetime:
    """Read an RFC 3339 time."""
    return datetime.fromisoformat(text)


def format_time(t: datetime) -> str:
    """Write a time for the protocol. One without a time zone is local time, as everywhere in Python."""
    return t.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def parse_version(version: str | int) -> int:
    """Read an object's version: an integer from 1 to 2^63-1, as text or as a number."""
    if isinstance(version, str):
        if not re.fullmatch(r"[0-9]{1,19}", version):
            raise ValueError(f"version {version[:32]!r} is not a whole number")
        version = int(version)
    if not 1 <= version <= _MOST_VERSION:
        raise ValueError(f"version {version} is not between 1 and 2^63-1")
    return version
