"""The digest of a set of registrations."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

__all__ = ["EMPTY_DIGEST", "digest_of", "format_digest", "object_hash"]

EMPTY_DIGEST = "0000000000000000"

_MASK = 2**64 - 1


def object_hash(group: str, name: str) -> int:
    """Return what one object adds: the first 8 bytes, big-endian, of SHA-256 of group, a line feed, and object."""
    return int.from_bytes(hashlib.sha256(f"{group}\n{name}".encode()).digest()[:8])


def format_digest(total: int) -> str:
    """Write a sum of object hashes as 16 hex digits."""
    return f"{total & _MASK:016x}"


def digest_of(objects: Iterable[tuple[str, str]]) -> str:
    """Return the digest of a set of (group, object)."""
    return format_digest(sum(object_hash(group, name) for group, name in objects))
