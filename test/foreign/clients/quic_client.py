"""Speaks HTTP/3 and WebTransport with aioquic: quic_client.py HOST:PORT CA SCENARIO [ARGUMENT…]. It prints one JSON object a line.

A session's frames are printed as they come, then how it ended: {"closed": {"code", "reason"}}. What ends the whole connection is
{"lost": {"code", "reason"}}.
"""
import asyncio
import json
import socket
import ssl
import sys

from aioquic.asyncio.client import connect
from aioquic.asyncio.protocol import QuicConnectionProtocol
from aioquic.buffer import Buffer, encode_uint_var
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DatagramReceived, DataReceived, HeadersReceived
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import ConnectionTerminated, StopSendingReceived, StreamDataReceived, StreamReset

CLOSE_SESSION = 0x2843  # draft-ietf-webtrans-http3, section 6, as is the next
SESSION_GONE = 0x170D7B68


def tell(**what):
    print(json.dumps(what), flush=True)


def length(n):
    out = bytearray()
    while n > 0x7F:
        out.append(n & 0x7F | 0x80)
        n >>= 7
    return bytes(out) + bytes([n])


def delimited(frame):
    body = json.dumps(frame).encode() if isinstance(frame, dict) else frame
    return length(len(body)) + body


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.h3 = H3Connection(self._quic, enable_webtransport=True)
        self.answers = {}  # stream id → (future of headers, body, future of the end)
        self.capsules = bytearray()
        self.session = None
        self.own = {}  # stream of the session → what came on it and is no frame yet
        self.frames = asyncio.Queue()
        self.unread = []  # frames that are printed and that no scenario has looked at
        self.ended = asyncio.get_running_loop().create_future()

    # HTTP/3

    def ask(self, method, path, headers=(), end=True):
        stream = self._quic.get_next_available_stream_id()
        loop = asyncio.get_running_loop()
        self.answers[stream] = (loop.create_future(), bytearray(), loop.create_future())
        head = [(b":method", method.encode()), (b":scheme", b"https"), (b":authority", self.authority.encode()), (b":path", path.encode())]
        self.h3.send_headers(stream, head + list(headers), end_stream=end)
        self.transmit()
        return stream

    async def get(self, path, headers=()):
        stream = self.ask("GET", path, headers)
        heads, body, end = self.answers[stream]
        status = int(dict(await heads)[b":status"])
        await end
        return status, bytes(body)

    # WebTransport

    async def open(self, query, path="/v1/transport", origin=None):
        """Asks for a session; returns the status of the answer."""
        headers = [(b":protocol", b"webtransport"), (b"sec-webtransport-http3-draft02", b"1")]
        if origin:
            headers.append((b"origin", origin.encode()))
        self.session = self.ask("CONNECT", path + query, headers, end=False)
        heads, _, _ = self.answers[self.session]
        head = dict(await heads)
        return int(head[b":status"])

    def stream(self, unidirectional=False):
        stream = self.h3.create_webtransport_stream(self.session, is_unidirectional=unidirectional)
        self.own[stream] = bytearray()
        return stream

    def send(self, stream, data, end=False):
        self._quic.send_stream_data(stream, data, end_stream=end)
        self.transmit()

    def reset(self, stream, code=0):
        self._quic.reset_stream(stream, code)
        self.transmit()

    def datagram(self, data):
        self.h3.send_datagram(self.session, data)
        self.transmit()

    def close_session(self, code, reason):
        capsule = code.to_bytes(4, "big") + reason.encode()
        self.h3.send_data(self.session, encode_uint_var(CLOSE_SESSION) + encode_uint_var(len(capsule)) + capsule, end_stream=True)
        for stream in self.own:
            self._quic.reset_stream(stream, SESSION_GONE)
            self._quic.stop_stream(stream, SESSION_GONE)
        self.transmit()

    async def next(self, kind):
        """Prints frames as they come until there is one of a kind, and returns its content."""
        while True:
            for i, (name, content) in enumerate(self.unread):
                if name == kind:
                    del self.unread[i]
                    return content
            frame = asyncio.ensure_future(self.frames.get())
            await asyncio.wait([frame, self.ended], return_when=asyncio.FIRST_COMPLETED)
            if not frame.done():
                frame.cancel()
                raise EOFError
            name, content, way = frame.result()
            tell(**{name: content, **({"by": way} if way == "datagram" else {})})
            self.unread.append((name, content))

    async def end(self):
        """Prints what still comes, and how the session or the connection ended."""
        try:
            await self.next("nothing is called so")
        except EOFError:
            tell(**self.ended.result())

    async def moves(self):
        """Goes on from another port, as behind a NAT that has forgotten the connection."""
        old = self._transport
        sock = socket.socket(socket.AF_INET6, socket.SOCK_DGRAM)
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(("::", 0, 0, 0))
        await asyncio.get_running_loop().create_datagram_endpoint(lambda: self, sock=sock)
        old.close()

    def connection_lost(self, exc):  # of a socket that was left
        pass

    def over(self, **how):
        if not self.ended.done():
            self.ended.set_result(how)

    def quic_event_received(self, event):
        if isinstance(event, ConnectionTerminated):
            self.over(lost={"code": event.error_code, "reason": event.reason_phrase})
            for heads, _, end in self.answers.values():
                for f in (heads, end):
                    if not f.done():
                        f.set_exception(ConnectionError(f"{event.error_code:#x} {event.reason_phrase}"))
                        f.exception()  # nobody may wait for it
        elif isinstance(event, StreamReset):
            tell(reset={"stream": self.name_of(event.stream_id), "code": event.error_code})
            if event.stream_id == self.session:
                self.over(closed={"code": None, "reason": "reset"})
        elif isinstance(event, StopSendingReceived):
            tell(stop={"stream": self.name_of(event.stream_id), "code": event.error_code})
        if isinstance(event, StreamDataReceived) and event.stream_id in self.own:  # aioquic would read it as HTTP/3
            self.read_frames(event.stream_id, event.data)
            if event.end_stream:
                tell(fin={"stream": self.name_of(event.stream_id)})
            return
        for e in self.h3.handle_event(event):
            self.h3_event(e)

    def name_of(self, stream):
        return "session" if stream == self.session else "first" if stream == self.session + 4 else "other"

    def h3_event(self, e):
        if isinstance(e, HeadersReceived) and e.stream_id in self.answers:
            heads, _, end = self.answers[e.stream_id]
            if not heads.done():
                heads.set_result(e.headers)
            if e.stream_ended and not end.done():
                end.set_result(None)
        elif isinstance(e, DataReceived) and e.stream_id == self.session:
            self.capsules += e.data
            self.read_capsules(e.stream_ended)
        elif isinstance(e, DataReceived) and e.stream_id in self.answers:
            _, body, end = self.answers[e.stream_id]
            body += e.data
            if e.stream_ended and not end.done():
                end.set_result(None)
        elif isinstance(e, DatagramReceived):
            self.frame(e.data, "datagram")

    def read_capsules(self, ended):
        while len(self.capsules) > 2:
            buf = Buffer(data=bytes(self.capsules))
            kind, size = buf.pull_uint_var(), buf.pull_uint_var()
            if buf.capacity - buf.tell() < size:
                break
            content = buf.pull_bytes(size)
            del self.capsules[: buf.tell()]
            if kind == CLOSE_SESSION:
                self.over(closed={"code": int.from_bytes(content[:4], "big"), "reason": content[4:].decode()})
        if ended:
            self.over(closed={"code": 0, "reason": ""})

    def read_frames(self, stream, data):
        b = self.own[stream]
        b += data
        while b:
            size = shift = at = 0
            while True:
                if at == len(b):
                    return
                size |= (b[at] & 0x7F) << shift
                shift += 7
                at += 1
                if b[at - 1] < 0x80:
                    break
            if len(b) < at + size:
                return
            self.frame(bytes(b[at : at + size]), "stream")
            del b[: at + size]

    def frame(self, data, way):
        if not data:  # a sign of life
            return
        ((name, content),) = json.loads(data).items()
        self.frames.put_nowait((name, content, way))


async def welcomed(c, recipient, query=""):
    status = await c.open("?protocol=godwit.v1.json" + query)
    if status != 200:
        raise SystemExit(f"the session is refused with {status}")
    stream = c.stream()
    c.send(stream, delimited({"hello": {"app": "demo", "recipient": recipient}}))
    await c.next("welcome")
    return stream


async def answers(c, stream):
    """Shows that the session goes on."""
    c.send(stream, delimited({"ping": {}}))
    await c.next("pong")


async def get(c, path, *key):
    """An answer of the API."""
    status, body = await c.get(path, [(b"authorization", f"Bearer {k}".encode()) for k in key])
    tell(answer={"status": status, "body": body.decode(errors="replace")})


async def listen(c, recipient, count):
    """Acknowledges notifications, then ends its stream."""
    stream = await welcomed(c, recipient)
    for _ in range(int(count)):
        n = await c.next("notification")
        # In two pieces: a stream has no borders.
        ack = delimited({"ack": {"ids": [n["id"]]}})
        c.send(stream, ack[:3])
        await asyncio.sleep(0)
        c.send(stream, ack[3:])
    await answers(c, stream)
    c.send(stream, b"", end=True)
    await c.end()


async def move(c, recipient, count):
    """Moves to another port before each acknowledgement."""
    stream = await welcomed(c, recipient)
    for _ in range(int(count)):
        n = await c.next("notification")
        await c.moves()
        c.send(stream, delimited({"ack": {"ids": [n["id"]]}}))
        await answers(c, stream)


async def topics(c, recipient, count):
    """Subscribes, with datagrams, and prints what comes."""
    stream = await welcomed(c, recipient, "&datagrams=1")
    c.send(stream, delimited({"subscribe": {"topics": ["rides.*"]}}))
    await answers(c, stream)
    for _ in range(int(count)):
        await c.next("message")


async def junk(c, recipient):
    """Frames that are none: each is told, and the session goes on."""
    stream = await welcomed(c, recipient)
    for frame in (b"{", b"\xff\xfe", b"[]", b'{"nonsense":{}}', b"null"):
        c.send(stream, delimited(frame))
        await c.next("error")
    await answers(c, stream)
    c.close_session(1000, "done")
    await c.end()


async def empty(c, recipient):
    """A frame without content."""
    stream = await welcomed(c, recipient)
    c.send(stream, delimited(b""))
    c.send(stream, delimited({"ping": {}}))
    await c.next("pong")


async def oversized(c, recipient):
    """The length of a frame that no client may send."""
    stream = await welcomed(c, recipient)
    c.send(stream, length(1 << 30) + b"x" * 1000)
    await c.end()


async def endless(c, recipient):
    """A length that does not end."""
    stream = await welcomed(c, recipient)
    c.send(stream, b"\xff" * 64)
    await c.end()


async def half(c, recipient):
    """A stream that ends in the middle of a frame."""
    stream = await welcomed(c, recipient)
    c.send(stream, delimited({"ping": {}})[:5], end=True)
    await c.end()


async def reset(c, recipient):
    """A stream that the client gives up."""
    stream = await welcomed(c, recipient)
    c.reset(stream, 7)
    await c.end()


async def second(c, recipient):
    """A second stream of the same session."""
    await welcomed(c, recipient)
    other = c.stream()
    c.send(other, delimited({"hello": {"app": "demo", "recipient": "thief"}}))
    await c.end()


async def oneway(c, recipient):
    """A stream in one direction."""
    stream = await welcomed(c, recipient)
    other = c.stream(unidirectional=True)
    c.send(other, delimited({"ping": {}}))
    try:
        while True:  # the server looks for such streams when a frame comes
            await answers(c, stream)
    except (AssertionError, EOFError):  # aioquic asserts that nobody writes once the server has refused the stream
        await c.end()


async def datagrams(c, recipient):
    """Datagrams to a server that takes none."""
    stream = await welcomed(c, recipient, "&datagrams=1")
    for size in (0, 1, 1000):
        c.datagram(b"x" * size)
    c.send(stream, delimited({"ack": {"ids": ["none"]}}))
    await c.end()


async def leaves(c, recipient):
    """A session that the client closes."""
    await welcomed(c, recipient)
    c.close_session(1000, "bye")
    await c.end()


async def silent(c):
    """A session without a stream, until the server ends it."""
    tell(status=await c.open("?protocol=godwit.v1.json"))
    await c.end()


async def speaks(c, *frames):
    """Sends frames as they are given and prints what comes until the end."""
    status = await c.open("?protocol=godwit.v1.json")
    tell(status=status)
    if status != 200:
        return
    stream = c.stream()
    for f in frames:
        c.send(stream, delimited(f.encode()))
    await c.end()


async def refused(c, path, origin=""):
    """The status with which a session is refused."""
    path, _, query = path.partition("?")
    tell(status=await c.open("?" + query if query else "", path, origin))


SCENARIOS = [get, listen, move, topics, junk, empty, oversized, endless, half, reset, second, oneway, datagrams, leaves, silent, speaks, refused]


async def main(address, ca, scenario, *args):
    host, _, port = address.rpartition(":")
    configuration = QuicConfiguration(is_client=True, alpn_protocols=H3_ALPN, max_datagram_frame_size=65536, server_name="localhost")
    if ca == "-":
        configuration.verify_mode = ssl.CERT_NONE
    else:
        configuration.load_verify_locations(ca)
    async with connect(host, int(port), configuration=configuration, create_protocol=Client) as c:
        c.authority = address
        await {f.__name__: f for f in SCENARIOS}[scenario](c, *args)


asyncio.run(asyncio.wait_for(main(*sys.argv[1:]), 300))
