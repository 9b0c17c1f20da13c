"""Where the gateway's sockets and files are, in a folder that only root can enter."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

FRONTEND_PORT: Final = 7233
UI_PORT: Final = 8233
"""Ports in Temporal's own network, where nothing else listens."""


@dataclass(frozen=True, slots=True)
class GatewayPlaces:
    """The files of one embedded Temporal, in its folder."""

    folder: Path

    @property
    def frontend(self) -> Path:
        """The socket for gRPC."""
        return self.folder / "grpc.sock"

    @property
    def codec(self) -> Path:
        """The socket on which the worker decodes payloads for the UI."""
        return self.folder / "codec.sock"

    @property
    def token(self) -> Path:
        """The UI's token, another at each start."""
        return self.folder / "ui.token"

    @property
    def lock(self) -> Path:
        """Held by the gateway and by its Temporal."""
        return self.folder / "lock"
