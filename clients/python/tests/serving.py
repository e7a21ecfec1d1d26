"""A real server for the tests, started on free ports."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
PATIENCE = 60.0


class Server:
    """A server process."""

    def __init__(self, binary: Path, folder: Path, *args: str) -> None:
        self.folder = folder
        self._binary = binary
        self._args = args
        self._process: subprocess.Popen[bytes] | None = None
        self._marks: list[socket.socket] = []
        self.http = self._address()
        self.grpc = self._address()

    @property
    def url(self) -> str:
        return f"http://{self.http}"

    def start(self) -> None:
        """Start it; after the first time it takes the same ports again."""
        addresses = self.folder / "addresses.json"
        addresses.unlink(missing_ok=True)
        with (self.folder / "log").open("ab") as log:
            options = ["--dev", "--min-free", "1MB", "--http-addr", self.http, "--grpc-addr", self.grpc, *self._args]
            self._process = subprocess.Popen(
                [str(self._binary), "serve", "--data", str(self.folder), *options], stdout=log, stderr=log
            )
        end = time.monotonic() + PATIENCE
        while not self._ready(addresses):
            if self._process.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the server did not start:\n{self.log()}")
            time.sleep(0.02)

    def _address(self) -> str:
        """A free address. Where it can be, it is not among those of outgoing connections, one of which could take it
        while the server is down, and it is marked as the Go tests mark theirs, so that nobody else is given it."""
        if sys.platform != "linux":
            return "127.0.0.1:0"
        lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
        for _ in range(100):
            address = f"127.0.0.1:{random.randrange(12000, lowest)}"
            mark = socket.socket(socket.AF_UNIX)
            try:
                mark.bind(f"\0godwit-freeport-{address}")
                with socket.create_server(("127.0.0.1", int(address.split(":")[1]))):
                    self._marks.append(mark)
                    return address
            except OSError:
                mark.close()
        raise RuntimeError("no port is free")

    def _ready(self, addresses: Path) -> bool:
        try:
            found = json.loads(addresses.read_text())
            if not self._args:  # with TLS there is nothing to ask without certificates
                urllib.request.urlopen(f"http://{found['http']}/readyz", timeout=5).close()
        except (OSError, ValueError, urllib.error.URLError):
            return False
        self.http, self.grpc = found["http"], found["grpc"]
        return True

    def log(self) -> str:
        return (self.folder / "log").read_text(errors="replace")[-8192:]

    def run(self, *args: str) -> str:
        """Run another command of the same binary and return what it printed."""
        return subprocess.run(
            [self._binary, *args, "--data", self.folder], check=True, capture_output=True, text=True
        ).stdout

    def lose(self, database: str) -> None:
        """Take a database away, as a dying disk does, and have an empty one made, as an operator does."""
        for file in self.folder.glob(f"{database}*"):
            file.unlink()
        assert f"{database} " in self.run("doctor", "--repair")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()

    def end(self) -> None:
        """End it for good."""
        self.kill()
        for mark in self._marks:
            mark.close()


def options(server: Server, transport: str) -> dict[str, Any]:
    """What a client takes to use a transport."""
    return {"grpc_address": server.grpc, "rpc": True} if transport == "grpc" else {}


NewServer = Callable[..., Server]


async def eventually(holds: Callable[[], Awaitable[bool]], patience: float = PATIENCE) -> None:
    """Wait until something holds: acknowledgements reach the store a little after the session."""
    end = time.monotonic() + patience
    while not await holds():
        assert time.monotonic() < end, "it never came true"
        await asyncio.sleep(0.02)
