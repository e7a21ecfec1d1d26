"""Sessions over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from .connection import MAX_FRAME
from .errors import RefusedError, UnreachableError
from .extras import needs
from .frames import ClientFrame, ServerFrame

try:
    import grpc
    import grpc.aio

    from .proto import decode_proto, to_proto
    from .v1 import client_pb2 as pb
except ImportError as e:
    raise needs("grpc", "gRPC", e) from e

__all__ = ["GRPCConnection", "dial_grpc"]

Call = grpc.aio.StreamStreamCall[pb.ClientFrame, bytes]

# How many seconds a cancelled stream may take to end, and its last events to come in. Both are local.
_CLOSE_TIMEOUT = 1.0
_LAST_EVENTS = 0.1

_REFUSALS = frozenset(
    {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED}
)


class GRPCConnection:
    """A Connection that is a stream of godwit.v1.Client/Connect."""

    def __init__(self, channel: grpc.aio.Channel, call: Call) -> None:
        self._channel = channel
        self._call = call
        self._reading: asyncio.Future[Any] | None = None  # goes on when nobody waits for it any more

    async def send(self, frame: ClientFrame) -> None:
        """Send a frame, or raise UnreachableError."""
        try:
            await self._call.write(to_proto(frame))
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as e:
            raise UnreachableError(f"connection lost: {_text(e)}") from e

    async def recv(self) -> ServerFrame | None:
        """Return the next frame, or raise UnreachableError or RefusedError."""
        try:
            message = await self._read()
            if isinstance(message, bytes):
                return decode_proto(message)
            code = await self._call.code()
            detail = await self._call.details() or ""
        except grpc.aio.AioRpcError as e:
            code, detail = e.code(), e.details() or ""
        if code in _REFUSALS:
            raise RefusedError(code.name.lower(), detail)
        raise UnreachableError(f"connection lost: {code.name.lower()}: {detail}" if detail else "connection closed")

    async def _read(self) -> object:
        """Read without cancelling the stream when the reader is."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._call.read())
        message = await asyncio.shield(self._reading)
        self._reading = None
        return message

    async def close(self) -> None:
        """End the stream and its channel."""
        self._call.cancel()
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=_CLOSE_TIMEOUT)
            if self._reading.done() and not self._reading.cancelled():
                self._reading.exception()  # it is known that the stream has ended
        await _let_go(self._channel)


async def _let_go(channel: grpc.aio.Channel) -> None:
    """Close a channel and let its last events come in.

    One thread of grpcio serves all event loops of a process, and what comes for a loop that was closed meanwhile is an
    error in another one.
    """
    await channel.close()
    await asyncio.sleep(_LAST_EVENTS)


def _text(e: Exception) -> str:
    return (e.details() if isinstance(e, grpc.aio.AioRpcError) else str(e)) or type(e).__name__


async def dial_grpc(
    address: str,
    *,
    credentials: grpc.ChannelCredentials | None,
    options: Sequence[tuple[str, Any]] = (),
    timeout: float,
) -> GRPCConnection:
    """Open a stream to the server at "host:port". Without credentials the connection is plain."""
    settings = [
        ("grpc.max_receive_message_length", MAX_FRAME),
        ("grpc.enable_retries", 0),
        # Each session has a connection of its own: a channel of the same address would be shared otherwise.
        ("grpc.use_local_subchannel_pool", 1),
        *options,
    ]
    if credentials is None:
        channel = grpc.aio.insecure_channel(address, options=settings)
    else:
        channel = grpc.aio.secure_channel(address, credentials, options=settings)
    try:
        async with asyncio.timeout(timeout):
            connect: grpc.aio.StreamStreamMultiCallable[pb.ClientFrame, bytes] = channel.stream_stream(
                "/godwit.v1.Client/Connect",
                request_serializer=pb.ClientFrame.SerializeToString,
                response_deserializer=None,  # one that fails would end the stream, and with it all that is behind
            )
            call: Call = connect()
            await call.wait_for_connection()
    except TimeoutError as e:
        await _let_go(channel)
        raise UnreachableError(f"connect: server did not answer in {timeout:g} s") from e
    except grpc.aio.AioRpcError as e:
        await _let_go(channel)
        raise UnreachableError(f"connect: {e.details()}") from e
    except BaseException:
        await _let_go(channel)
        raise
    return GRPCConnection(channel, call)
