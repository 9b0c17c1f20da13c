"""Does the node's API report what it cannot serve in one line, at the start?"""

import dataclasses
import socket
from pathlib import Path

import pytest

from activities.clients.api_server.kubeconfig import Kubeconfig
from tests.worker.api.node_api import node_around, node_config
from worker.api.server import serve_api
from worker.settings.cluster import Authentication, Serving
from worker.settings.kubelet.configuration import ConfigurationRefused

NOWHERE = Kubeconfig(server="http://127.0.0.1:1")


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        pytest.param({"cipher_suites": ("RC4",)}, "tlsCipherSuites 'RC4'", id="a-cipher"),
        pytest.param({"min_version": "SSL3"}, "tlsMinVersion 'SSL3'", id="a-version"),
        pytest.param({"authentication": Authentication(webhook=False)}, "authentication: no way", id="no-way-in"),
    ],
)
async def test_what_can_not_be_obeyed_is_refused(tmp_path: Path, changes: dict[str, object], line: str) -> None:
    """With the configuration key."""
    serving = dataclasses.replace(Serving(address="127.0.0.1", port=0), **changes)  # type: ignore[arg-type]  # fields
    async with node_around(node_config(tmp_path, serving), NOWHERE) as around:
        with pytest.raises(ConfigurationRefused, match=line):
            await serve_api(around)


async def test_a_port_that_is_taken_is_named(tmp_path: Path) -> None:
    """Usually because a kubelet still runs."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        serving = Serving(address="127.0.0.1", port=port)
        async with node_around(node_config(tmp_path, serving), NOWHERE) as around:
            with pytest.raises(
                OSError, match=f"the node's API can't listen on 127.0.0.1:{port}: Address already in use"
            ):
                await serve_api(around)
