"""Names and addresses with which a request would go elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import pytest

from godwit import AsyncClient
from godwit.http import path
from godwit.values import check_name

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("name", ["", ".", ".."])
async def test_names_that_step_to_another_path_are_refused(name: str) -> None:
    async with AsyncClient("http://127.0.0.1:1", attempts=1) as client:  # nothing listens at port 1
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: client.erase(name),
            lambda: client.recall(name),
            lambda: client.recipient(name),
            lambda: client.disconnect(name),
            lambda: client.preferences(name),
            lambda: client.delete_object("rides", name),
            lambda: client.delete_object(name, "7"),
            lambda: client.request_recipient(name),
            lambda: client.endpoints.delete(name),
            lambda: client.channels.delete(name),
        ]
        for call in calls:
            with pytest.raises(ValueError, match="is no"):
                await call()


async def test_other_names_stand_in_paths_as_they_are() -> None:
    assert path("v1", "notifications", "../a?b#c") == "/v1/notifications/..%2Fa%3Fb%23c"
    assert path("v1", "notifications", "...") == "/v1/notifications/..."


async def test_no_name_is_a_step() -> None:
    for name in (".", ".."):
        with pytest.raises(ValueError, match="is not a name"):
            check_name("object", name)


@pytest.mark.parametrize("end", ["?", "#", "?a=b", "/#x"])
async def test_the_address_of_a_server_ends_before_its_query(end: str) -> None:
    with pytest.raises(ValueError, match="must end before"):
        AsyncClient("https://example.org" + end)
