"""Servers that end with the tests they are for."""

from __future__ import annotations

import asyncio
import os
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from godwit import AsyncClient
from serving import PATIENCE, ROOT, NewServer, Server, options


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session", autouse=True)
async def loop(anyio_backend: str) -> AsyncIterator[None]:
    """Keep one event loop for all tests: what grpcio still has for a closed loop is an error in the next one."""
    yield  # noqa: PT022 - the loop lasts until the fixture ends


@pytest.fixture(scope="session")
def binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The server's program: GODWIT_BINARY, or built now."""
    if given := os.environ.get("GODWIT_BINARY"):
        return Path(given)
    target = tmp_path_factory.mktemp("bin") / "godwit"
    subprocess.run(["go", "build", "-o", target, "./cmd/godwit"], cwd=ROOT, check=True)
    return target


@pytest.fixture
def new_server(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NewServer]:
    """Start servers that end with the test."""
    started: list[Server] = []

    def start(*args: str) -> Server:
        server = Server(binary, tmp_path_factory.mktemp("server"), *args)
        started.append(server)
        server.start()
        return server

    yield start
    for server in started:
        server.end()
        assert "panic:" not in server.log()


@pytest.fixture(scope="module")
def server(binary: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for the tests of a module, which use recipients of their own."""
    server = Server(binary, tmp_path_factory.mktemp("server"))
    server.start()
    yield server
    server.end()
    assert "panic:" not in server.log()


@pytest.fixture(params=["websocket", "grpc"])
async def client(request: pytest.FixtureRequest, server: Server) -> AsyncIterator[AsyncClient]:
    """A client of that server, over either transport."""
    async with AsyncClient(server.url, api_key="dev", **options(server, request.param)) as client:
        async with asyncio.timeout(PATIENCE):
            yield client


@pytest.fixture
def root(request: pytest.FixtureRequest) -> str:
    """A first token of the test's own."""
    return str(request.node.name).translate({ord("["): "-", ord("]"): None})[-100:]
