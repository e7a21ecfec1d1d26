"""Where a unit's server is, and how the unit proves who it is."""

from __future__ import annotations

import os
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from ..connection import Connection as Carrier
from ..errors import UnreachableError
from ..token import TokenSource
from ..values import Duration
from ..websocket import dial_websocket

if TYPE_CHECKING:
    import grpc

__all__ = ["Connection"]

# Seconds that dialling may take: over a satellite a handshake takes several round trips.
_TIMEOUT = 60.0

PathName = str | os.PathLike[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """Where the server is, and how the unit proves who it is."""

    address: str = "localhost"
    port: int = 50051
    """Of the server's gRPC listener, or of its HTTP listener for a WebSocket."""
    ca_cert: PathName | None = None
    """PEM file with the authorities that vouch for the server; None: the system's."""
    cert: PathName | None = None
    """PEM file with the unit's certificate, which names it: godwit://domain/group_id/group_id:client_id"""
    key: PathName | None = None
    """PEM file with the certificate's key."""
    tls: bool | None = None
    """Whether the connection is encrypted; None: if there are certificates."""
    token: str | TokenSource | None = field(default=None, repr=False)
    """Instead of a certificate: the unit's token, or a function that returns one that is valid now."""
    transport: Literal["grpc", "websocket"] = "grpc"
    """grpc needs godwit-client[grpc]."""
    heartbeat: Duration = 0.0
    """How often both sides compare what they know: 5 s to 24 h, by default 30 s."""

    def __post_init__(self) -> None:
        if self.transport not in ("grpc", "websocket"):
            raise ValueError(f'transport {self.transport!r} is neither "grpc" nor "websocket"')
        if self.transport == "grpc":
            from .. import grpcconn  # noqa: F401  # says what is missing now, and not at each connect
        if (self.cert is None) != (self.key is None):
            raise ValueError("a certificate needs its key, and a key its certificate")
        if self.tls is False and (self.ca_cert or self.cert):
            raise ValueError("certificates are of no use without TLS")

    @property
    def encrypted(self) -> bool:
        """Whether the connection is encrypted."""
        return bool(self.ca_cert or self.cert) if self.tls is None else self.tls

    @property
    def target(self) -> str:
        """The server's host and port."""
        host = f"[{self.address}]" if ":" in self.address and not self.address.startswith("[") else self.address
        return f"{host}:{self.port}"

    def check(self) -> None:
        """Raise OSError or ssl.SSLError if the certificates cannot be used."""
        if self.encrypted:
            self._context()

    async def dial(self) -> Carrier:
        """Connect. Certificates are read anew each time, so that they can be replaced meanwhile."""
        try:
            credentials = self._credentials() if self.encrypted and self.transport == "grpc" else None
            context = self._context() if self.encrypted and self.transport == "websocket" else None
        except (OSError, ssl.SSLError) as e:
            raise UnreachableError(f"read certificates: {e}") from e
        if self.transport == "grpc":
            from ..grpcconn import dial_grpc

            return await dial_grpc(self.target, credentials=credentials, timeout=_TIMEOUT)
        scheme = "wss" if self.encrypted else "ws"
        return await dial_websocket(f"{scheme}://{self.target}/v1/connect", tls=context, timeout=_TIMEOUT)

    def _context(self) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=self.ca_cert)
        if self.cert is not None:
            context.load_cert_chain(self.cert, self.key)
        return context

    def _credentials(self) -> grpc.ChannelCredentials:
        import grpc

        return grpc.ssl_channel_credentials(_bytes(self.ca_cert), _bytes(self.key), _bytes(self.cert))


def _bytes(path: PathName | None) -> bytes | None:
    return None if path is None else Path(path).read_bytes()
