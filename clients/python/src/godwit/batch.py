"""Publishing many notifications in few requests."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .backoff import REQUEST_BASE, REQUEST_MOST, Backoff
from .errors import BatchError, GodwitError, Problem
from .http import API, path
from .publication import Publication
from .results import Receipt

if TYPE_CHECKING:
    from .rpc import RPC

__all__ = ["publish_batch"]

# Of one request. The server takes 32 MB.
_MAX_LINES = 10_000
_MAX_BYTES = 31 << 20


async def publish_batch(
    api: API, publications: Iterable[Publication], *, attempts: int, rpc: RPC | None = None
) -> list[Receipt]:
    """Publish all, and those again that failed for a reason that may pass."""
    requests = [p.to_json() for p in publications]
    lines = [json.dumps(r, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode() for r in requests]
    receipts = [Receipt(id=r["id"], to=r["to"]) for r in requests]
    todo = list(range(len(lines)))
    wait = Backoff(REQUEST_BASE, REQUEST_MOST)
    for left in range(attempts - 1, -1, -1):
        again: list[int] = []
        pause = 0.0
        for some in _slices(todo, lines):
            try:
                if rpc is not None:
                    answers = await rpc.publish_many([requests[i] for i in some])
                else:
                    answers = await _send(api, [lines[i] for i in some])
            except GodwitError as e:
                raise BatchError(str(e), receipts) from e
            for i, receipt in zip(some, answers, strict=True):
                receipts[i] = (
                    receipt if receipt.id and receipt.to else replace(receipt, id=receipts[i].id, to=receipts[i].to)
                )
                if receipt.problem is not None and receipt.problem.temporary:
                    again.append(i)
                    pause = max(pause, receipt.problem.retry_after)
        if not again or not left:
            break
        todo = again
        await asyncio.sleep(max(wait.next(), pause))
    return receipts


def _slices(todo: list[int], lines: list[bytes]) -> Iterable[list[int]]:
    some: list[int] = []
    size = 0
    for i in todo:
        if some and (len(some) == _MAX_LINES or size + len(lines[i]) + 1 > _MAX_BYTES):
            yield some
            some, size = [], 0
        some.append(i)
        size += len(lines[i]) + 1
    if some:
        yield some


async def _send(api: API, lines: list[bytes]) -> list[Receipt]:
    response = await api.call(
        "POST",
        path("v1", "notifications", "batch"),
        content=b"\n".join(lines) + b"\n",
        content_type="application/x-ndjson",
        doing="publish batch",
    )
    answers: list[dict[str, Any]] = [json.loads(line) for line in response.content.splitlines() if line.strip()]
    if len(answers) < len(lines):  # the server could not finish the answer; the ids make a retry harmless
        cut = Problem(status=503, title="The answer was cut off", detail="the answer ends before this notification")
        missing = [Receipt(id="", to="", problem=cut) for _ in lines[len(answers) :]]
        return [*map(Receipt.from_json, answers), *missing]
    if len(answers) > len(lines):
        raise GodwitError(f"publish batch: {len(answers)} answers to {len(lines)} notifications")
    return [Receipt.from_json(a) for a in answers]
