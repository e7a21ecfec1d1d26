"""What the client's HTTP makes of servers, proxies and what is neither."""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from certificates import Authority
from godwit.carrier import Answer, CarrierError
from godwit.httpcarrier import HTTP
from godwit.httplines import Line, Lines, PlainConnection
from serving import PATIENCE, eventually

pytestmark = pytest.mark.anyio


class Played:
    """A server that answers each head of a request with the next of some bytes."""

    def __init__(self, *answers: bytes, close: bool = True) -> None:
        self._answers = list(answers)
        self._close = close
        self.heads: list[bytes] = []
        self.connections = 0
        self.url = ""
        self.ended = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while self._answers:
                self.heads.append(await reader.readuntil(b"\r\n\r\n"))
                writer.write(self._answers.pop(0))
                if self._close:
                    break
            else:
                await reader.read()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()
            self.ended.set()


@asynccontextmanager
async def playing(played: Played, tls: ssl.SSLContext | None = None) -> AsyncIterator[Played]:
    async with await asyncio.start_server(played.serve, "127.0.0.1", 0, ssl=tls) as server:
        scheme = "http" if tls is None else "https"
        played.url = f"{scheme}://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        yield played


async def ask(carrier: HTTP, method: str = "GET", content: bytes | None = None) -> Answer:
    return await carrier.ask(method, "/x", {}, content, timeout=PATIENCE)


async def answer_to(raw: bytes, method: str = "GET") -> Answer:
    async with playing(Played(raw)) as played:
        carrier = HTTP(played.url, None)
        try:
            return await ask(carrier, method)
        finally:
            await carrier.close()


@pytest.mark.parametrize(
    ("raw", "content"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", b"hi"),
        (b"HTTP/1.1 200\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\n\r\n", b""),
        (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length:1\r\n\r\n!", b"!"),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", b""),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA;x\r\n0123456789\r\n0\r\nT: t\r\n\r\n",
            b"abc0123456789",
        ),
    ],
)
async def test_content_is_read_however_its_end_is_told(raw: bytes, content: bytes) -> None:
    assert (await answer_to(raw)).content == content


async def test_headers_are_kept_in_order() -> None:
    got = await answer_to(b"HTTP/1.1 404 Not Found\r\nX-A: 1\r\nx-a:  2 \r\nContent-Length: 0\r\n\r\n")
    assert (got.status, got.headers[:2], got.header("x-a")) == (404, (("x-a", "1"), ("x-a", "2")), "1")


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Le",
        b"SSH-2.0-OpenSSH_9.2\r\n\r\n",
        b"HTTP/1.1 abc\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n folded: x\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nhi",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-1\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nabc\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000 + b"\r\n\r\n",
    ],
)
async def test_what_is_no_answer_is_an_error_of_the_carrier(raw: bytes) -> None:
    with pytest.raises(CarrierError):
        await answer_to(raw)


async def test_no_bytes_do_more_than_fail() -> None:
    seed = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    chance = random.Random(7)  # the same bytes each time
    for _ in range(300):
        raw = bytearray(seed)
        for _ in range(chance.randint(1, 4)):
            raw[chance.randrange(len(raw))] = chance.choice(b"\r\n :;0123456789aHT\x00\xff")
        with suppress(CarrierError):
            await answer_to(bytes(raw[: chance.randint(1, len(raw))]))


async def test_a_connection_is_used_again_until_the_server_ends_it() -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with playing(Played(ok, ok, ok[:-2] + b"Connection: close\r\n\r\n", ok, close=False)) as played:
        carrier = HTTP(played.url + "/under", None)
        for _ in range(4):
            assert (await ask(carrier, "POST", b"")).status == 200
        assert played.connections == 2
        assert played.heads[0].startswith(b"POST /under/x HTTP/1.1\r\n")
        assert b"\r\nHost: 127.0.0.1:" in played.heads[0]
        await carrier.close()


async def test_an_answer_left_before_its_end_ends_the_connection() -> None:
    async with playing(Played(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nline\nhalf", close=False)) as played:
        carrier = HTTP(played.url, None)
        async with carrier.stream("/", {}, timeout=PATIENCE, silence=PATIENCE) as streamed:
            assert await anext(streamed.lines()) == b"line"
        async with asyncio.timeout(PATIENCE):
            await played.ended.wait()
        await carrier.close()


async def test_a_silent_server_is_given_up() -> None:
    async with playing(Played(b"HTTP/1.1 200 OK\r\n\r\n", close=False)) as played:
        carrier = HTTP(played.url, None)
        with pytest.raises(TimeoutError):
            async with carrier.stream("/", {}, timeout=PATIENCE, silence=0.01) as streamed:
                await streamed.whole()


def threads() -> set[threading.Thread]:
    return {t for t in threading.enumerate() if t.name == "godwit http"}


def lines_to(played: Played, most: int, idle: float) -> Lines:
    at = urlsplit(played.url)
    return Lines(lambda: PlainConnection(at.hostname or "", at.port, timeout=PATIENCE), most, idle)


async def test_a_request_that_is_cancelled_ends_its_connection_and_its_thread() -> None:
    before = threads()
    async with playing(Played(b"HTTP/1.1 200 OK\r\n", close=False)) as played:
        carrier = HTTP(played.url, None)
        asking = asyncio.create_task(ask(carrier))
        await eventually(lambda: asyncio.sleep(0, bool(played.heads)))
        asking.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asking
        async with asyncio.timeout(PATIENCE):
            await played.ended.wait()
        await carrier.close()
        await eventually(lambda: asyncio.sleep(0, threads() <= before))


async def test_a_server_that_never_ends_its_head_is_given_up_with_its_thread() -> None:
    before = threads()
    async with playing(Played(b"HTTP/1.1 200 OK\r\n", close=False)) as played:
        carrier = HTTP(played.url, None)
        patience = 0.01
        while not played.heads:  # where it was given up before it was sent, it has longer
            with pytest.raises(TimeoutError):
                await carrier.ask("GET", "/", {}, None, timeout=patience)
            patience *= 2
        async with asyncio.timeout(PATIENCE):
            await played.ended.wait()
        await carrier.close()
        await eventually(lambda: asyncio.sleep(0, threads() <= before))


async def test_what_is_asked_at_once_has_connections_up_to_a_limit_and_all_is_answered() -> None:
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with playing(Played(*[ok] * 40, close=False)) as played:
        lines = lines_to(played, 4, 5.0)
        asked = [lines.run(partial(Line.whole, request=("GET", "/x", None, {}))) for _ in range(40)]
        async with asyncio.timeout(PATIENCE):
            assert [a.status for a in await asyncio.gather(*asked)] == [200] * 40
        assert played.connections <= 4
        lines.close()


async def test_idle_threads_end_with_their_connections() -> None:
    before = threads()
    ok = b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
    async with playing(Played(ok, ok, close=False)) as played:
        lines = lines_to(played, 4, 0.01)
        for _ in range(2):  # after they have ended, another begins
            assert (await lines.run(partial(Line.whole, request=("GET", "/x", None, {})))).status == 200
            await eventually(lambda: asyncio.sleep(0, threads() <= before))


async def test_a_key_with_a_line_break_is_refused_without_being_said() -> None:
    carrier = HTTP("http://127.0.0.1:1", None)
    with pytest.raises(ValueError, match="header Authorization") as refused:
        await carrier.ask("GET", "/", {"Authorization": "Bearer secret\n"}, None, timeout=1)
    assert "secret" not in str(refused.value)


async def test_a_plain_server_is_asked_through_the_proxy_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with playing(Played(b"HTTP/1.1 200 OK\r\n\r\nby proxy")) as proxy:
        monkeypatch.setenv("http_proxy", proxy.url.replace("//", "//ann:pass@"))
        monkeypatch.setenv("no_proxy", "elsewhere.example")
        assert (await ask(HTTP("http://server.example", None))).content == b"by proxy"
    assert proxy.heads[0].startswith(b"GET http://server.example/x HTTP/1.1\r\n")
    assert b"\r\nHost: server.example\r\n" in proxy.heads[0]
    assert b"Proxy-Authorization: Basic YW5uOnBhc3M=\r\n" in proxy.heads[0]


async def test_an_encrypted_server_is_reached_through_a_tunnel(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    chain, key = authority.issue("server")
    ours = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    ours.load_cert_chain(chain, key)
    theirs = ssl.create_default_context(cafile=authority.file)
    heads: list[bytes] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heads.append(await reader.readuntil(b"\r\n\r\n"))
        host, _, port = heads[-1].split()[1].decode().rpartition(":")
        onward_reader, onward = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")

        async def pump(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
            try:
                while piece := await source.read(1 << 16):
                    target.write(piece)
            except ConnectionError:
                pass
            finally:
                target.close()

        await asyncio.gather(pump(reader, onward), pump(onward_reader, writer))

    async with (
        playing(Played(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"), ours) as played,
        await asyncio.start_server(tunnel, "127.0.0.1", 0) as proxy,
    ):
        monkeypatch.setenv("https_proxy", f"http://127.0.0.1:{proxy.sockets[0].getsockname()[1]}")
        monkeypatch.setenv("no_proxy", "elsewhere.example")
        carrier = HTTP(played.url, theirs)
        assert (await ask(carrier)).content == b"hi"
        await carrier.close()
    assert heads[0].startswith(b"CONNECT 127.0.0.1:")
