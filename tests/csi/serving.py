"""The CSI driver of `tests.csi.driver` in the test's own process."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc.aio

from proto.csi.v1 import csi_pb2_grpc
from proto.pluginregistration.v1 import api_pb2_grpc as registration_grpc
from tests.csi.driver import Node, Registrar, detach_all
from tests.csi.orders import DriverFolder, Setup


class Served(DriverFolder):
    """A driver's folder, and an event for each kind of call."""

    called: dict[str, asyncio.Event]


@asynccontextmanager
async def serving(path: Path, registration: Path, setup: Setup | None = None) -> AsyncIterator[Served]:
    """Serve a driver in a folder, with its registration socket at `registration`."""
    folder, setup = Served(path), setup or Setup()
    folder.setup(setup)
    node, registrar = grpc.aio.server(), grpc.aio.server()
    csi_pb2_grpc.add_NodeServicer_to_server(servicer := Node(folder, setup), node)
    folder.called = servicer.called
    registration_grpc.add_RegistrationServicer_to_server(Registrar(folder, setup), registrar)
    for server, socket in ((node, path / "csi.sock"), (registrar, registration)):
        server.add_insecure_port(f"unix://{socket}")
        await server.start()
    try:
        yield folder
    finally:
        await registrar.stop(None)
        await node.stop(None)
        await asyncio.to_thread(detach_all, path)
        registration.unlink(missing_ok=True)  # noqa: ASYNC240 - a test's own folder
