"""A connection to Temporal that is opened after its client was made, and opened anew when it has to be.

Worker and poller make their client at once, so that all that uses it can start while Temporal is away. Until a connection is
in use every call fails at once as UNAVAILABLE, as calls do later whenever Temporal does not answer. So do calls of a
namespace that is gone: NOT_FOUND means to callers that one workflow is gone, and they would remove its pod.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from google.protobuf.message import Message
from temporalio.api.errordetails.v1 import NamespaceNotFoundFailure
from temporalio.client import Client, ClientConfig, Plugin
from temporalio.service import ConnectConfig, RPCError, RPCStatusCode, ServiceClient

NOT_CONNECTED: Final = "not connected to Temporal yet"
Connect = Callable[[ConnectConfig], Awaitable[ServiceClient]]
_Answer = TypeVar("_Answer", bound=Message)


class Connection(ServiceClient):
    """The service client of one process, over the connection that is in use."""

    def __init__(self, config: ConnectConfig, connect: Connect) -> None:
        super().__init__(config)
        self._connect = connect
        self._used: ServiceClient | None = None
        self._identity, self._opened = config.identity, 0
        self.namespace_gone = asyncio.Event()
        """Set when a call is answered so, until another connection is used."""
        self._next_use = asyncio.Event()

    async def connect_once(self) -> ServiceClient:
        """Open another connection, which is not in use yet; raises RuntimeError.

        It has an identity of its own, so that attempts that were started over an earlier one can be told apart.
        """
        number = self._opened + 1
        identity = self._identity if number == 1 else f"{self._identity}/{number}"
        opened = await self._connect(replace(self.config, identity=identity))
        self._opened = number
        return opened

    def use(self, opened: ServiceClient) -> None:
        """Make all further calls over this connection."""
        self._used = opened
        self.config.identity = opened.config.identity
        self.namespace_gone.clear()
        self._next_use.set()
        self._next_use = asyncio.Event()

    async def next_use(self) -> None:
        """Wait until another connection comes into use."""
        await self._next_use.wait()

    @property
    def worker_service_client(self) -> Any:
        """What the SDK makes a Worker with; raises RuntimeError while no connection is in use."""
        if self._used is None:
            raise RuntimeError(NOT_CONNECTED)
        return self._used.worker_service_client

    def update_rpc_metadata(self, metadata: Mapping[str, str | bytes]) -> None:
        """Set the headers of all further calls."""
        self.config.rpc_metadata = metadata
        if self._used is not None:
            self._used.update_rpc_metadata(metadata)

    def update_api_key(self, api_key: str | None) -> None:
        """Set the API key of all further calls."""
        self.config.api_key = api_key
        if self._used is not None:
            self._used.update_api_key(api_key)

    async def _rpc_call(  # noqa: PLR0913 - the SDK's signature
        self,
        rpc: str,
        req: Message,
        resp_type: type[_Answer],
        *,
        service: str,
        retry: bool,
        metadata: Mapping[str, str | bytes],
        timeout: timedelta | None,
    ) -> _Answer:
        if self._used is None:
            raise RPCError(NOT_CONNECTED, RPCStatusCode.UNAVAILABLE, b"")
        try:
            return await self._used._rpc_call(  # noqa: SLF001 - the method that a service client consists of
                rpc, req, resp_type, service=service, retry=retry, metadata=metadata, timeout=timeout
            )
        except RPCError as error:
            if not is_namespace_gone(error):
                raise
            self._used = None
            self.namespace_gone.set()
            raise RPCError(error.message, RPCStatusCode.UNAVAILABLE, error.raw_grpc_status) from error


def connection_of(client: Client) -> Connection:
    """Return the connection of a client that was made by `OpenedLater`."""
    found = client.service_client
    assert isinstance(found, Connection)
    return found


async def pause(client: Client, seconds: float) -> None:
    """Wait for so long, or until the client has another connection: what failed before may succeed now."""
    connection = client.service_client
    if not isinstance(connection, Connection):
        await asyncio.sleep(seconds)
        return
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            await connection.next_use()


def is_namespace_gone(error: RPCError) -> bool:
    """Report whether the namespace is what was not found."""
    if error.status is not RPCStatusCode.NOT_FOUND:
        return False
    return any(one.Is(NamespaceNotFoundFailure.DESCRIPTOR) for one in error.grpc_status.details)


class OpenedLater(Plugin):
    """Gives a client a `Connection`; to be named before all other plugins."""

    def configure_client(self, config: ClientConfig) -> ClientConfig:
        """Change nothing else."""
        return config

    async def connect_service_client(self, config: ConnectConfig, next: Connect) -> ServiceClient:  # noqa: A002 - the SDK's name
        """Return a connection that is not opened yet."""
        return Connection(config, next)
