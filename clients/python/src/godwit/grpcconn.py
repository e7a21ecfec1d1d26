"""Sessions over gRPC."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import grpc
import grpc.aio

from .connection import MAX_FRAME
from .errors import RefusedError, UnreachableError
from .frames import ClientFrame, ServerFrame
from .proto import from_proto, to_proto
from .v1 import client_pb2 as pb

__all__ = ["GRPCConnection", "dial_grpc"]

Call = grpc.aio.StreamStreamCall[pb.ClientFrame, pb.ServerFrame]

_REFUSALS = frozenset(
    {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNIMPLEMENTED}
)


class GRPCConnection:
    """A Connection that is a stream of godwit.v1.Client/Connect."""

    def __init__(self, channel: grpc.aio.Channel, call: Call) -> None:
        self._channel = channel
        self._call = call

    async def send(self, frame: ClientFrame) -> None:
        """Send a frame, or raise UnreachableError."""
        try:
            await self._call.write(to_proto(frame))
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as e:
            raise UnreachableError(f"connection lost: {_text(e)}") from e

    async def recv(self) -> ServerFrame | None:
        """Return the next frame, or raise UnreachableError or RefusedError."""
        try:
            message = await self._call.read()
            if isinstance(message, pb.ServerFrame):
                return from_proto(message)
            code = await self._call.code()
            detail = await self._call.details() or ""
        except grpc.aio.AioRpcError as e:
            code, detail = e.code(), e.details() or ""
        if code in _REFUSALS:
            raise RefusedError(code.name.lower(), detail)
        raise UnreachableError(f"connection lost: {code.name.lower()}: {detail}" if detail else "connection closed")

    async def close(self) -> None:
        """End the stream and its channel."""
        self._call.cancel()
        await self._channel.close()


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
            connect: grpc.aio.StreamStreamMultiCallable[pb.ClientFrame, pb.ServerFrame] = channel.stream_stream(
                "/godwit.v1.Client/Connect",
                request_serializer=pb.ClientFrame.SerializeToString,
                response_deserializer=pb.ServerFrame.FromString,
            )
            call: Call = connect()
            await call.wait_for_connection()
    except TimeoutError as e:
        await channel.close()
        raise UnreachableError(f"connect: server did not answer in {timeout:g} s") from e
    except grpc.aio.AioRpcError as e:
        await channel.close()
        raise UnreachableError(f"connect: {e.details()}") from e
    except BaseException:
        await channel.close()
        raise
    return GRPCConnection(channel, call)
