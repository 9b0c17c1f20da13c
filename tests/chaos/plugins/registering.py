"""A device plugin that registers at the kubelet's own socket, and something that dies while it does."""

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

import grpc

from proto.deviceplugin.v1beta1 import api_pb2 as api
from proto.deviceplugin.v1beta1 import api_pb2_grpc
from tests.chaos.plugins.plugin_proxy import Where
from tests.node.hardware.numa_plugin import RESOURCE

FOLDER: Final = "device-plugins"
ANSWERED_WITHIN: Final = 60.0


def register(root_dir: Path, served: Path, where: Where, act: Callable[[], None]) -> None:
    """Register what is served at a socket, and act when it is answered; or act in the middle, when the node connects to the plugin."""
    folder = root_dir / FOLDER
    if where is Where.AFTER:
        assert _register(folder, f"../{served.relative_to(root_dir)}"), "it is registered"
        act()
        return
    endpoint = folder / "silent"
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(endpoint))
        silent.listen()
        silent.settimeout(ANSWERED_WITHIN)
        registering = threading.Thread(target=_register, args=(folder, endpoint.name))
        registering.start()
        connection, _ = silent.accept()
        act()
        connection.close()
    endpoint.unlink(missing_ok=True)
    registering.join()


def _register(folder: Path, endpoint: str) -> bool:
    request = api.RegisterRequest(
        version="v1beta1",
        endpoint=endpoint,
        resource_name=RESOURCE,
        options=api.DevicePluginOptions(pre_start_required=True, get_preferred_allocation_available=True),
    )
    with grpc.insecure_channel(f"unix:{folder / 'kubelet.sock'}") as channel, contextlib.suppress(grpc.RpcError):
        api_pb2_grpc.RegistrationStub(channel).Register(request, timeout=ANSWERED_WITHIN)
        return True
    return False
