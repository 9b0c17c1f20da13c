"""Can a kubelet be started on our `kubelet_internal_checkpoint`, with the pod's device and what its plugin has answered?

That we start on a kubelet's is shown by a file of its own (`tests/workflows/decide/devices/test_checkpoint.py`).
"""

import asyncio
import dataclasses
import json
from datetime import timedelta
from pathlib import Path
from typing import Final

import pytest

from proto.temporal.hardware.ledger import AllocateHardware
from tests.cluster.cluster_node import pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.peers.kubelet_node import NAME, KubeletNode
from tests.cluster.peers.state_files import Json, created, until_gone, until_ready
from tests.node.hardware.numa_plugin import RESOURCE, VARIABLE, numa_plugin
from tests.node.tempolet_node import pod_manifest
from tests.waiting import wait_until
from worker.devices.of_this_node import NodeDevices
from worker.hardware.node_hardware import NodeHardware
from workflows.decide.devices.checkpoint import STATE_FILE
from workflows.decide.node.hardware_needs import hardware_slice

FOLDER: Final = "/var/lib/kubelet/device-plugins"
"""A kubelet looks for plugins and their checkpoint here, whatever its root directory is (pluginapi.DevicePluginPath)."""

pytestmark = pytest.mark.usefixtures("numa_program")


def with_its_folder(program: Path, folder: Path, script: Path) -> Path:
    """Write a program that runs the kubelet where `folder` is the only one that it knows, in a mount namespace."""
    folder.mkdir(parents=True)
    script.write_text(
        f"#!/bin/sh\nexec unshare --mount --propagation slave sh -c 'mount -t tmpfs none /var/lib && "
        f'mkdir -p {FOLDER} && mount --bind {folder} {FOLDER} && exec {program} "$@"\' sh "$@"\n'
    )
    script.chmod(0o755)
    return script


async def given(root_dir: Path, socket: Path, pod: Json) -> None:
    """Give a pod its device."""
    devices = NodeDevices(root_dir)
    await devices.plugins.register(RESOURCE, str(socket), ["v1beta1"])
    assert await devices.plugins.is_registered(RESOURCE, timedelta(seconds=10))
    await NodeHardware([devices.manager]).allocate(AllocateHardware(hardware_slice(pod)))
    await devices.plugins.close()


def test_the_kubelet_starts_on_ours(
    kubelet_node: KubeletNode, plane: ControlPlane, node_dir: Path, tmp_path: Path
) -> None:
    """Its checksum is right, and the pod keeps a device that a kubelet without the file would not give it."""
    until_gone(plane)
    manifest = pod_manifest("device", f'test "${VARIABLE}" = d0 && sleep 3600')
    manifest["spec"]["containers"][0]["resources"] = {"limits": {RESOURCE: "1"}}
    pod, home, socket = created(plane, manifest, bound=False), node_dir / "our-devices", node_dir / "served.sock"
    with numa_plugin(tmp_path / "log", f"--socket={socket}", "d0=0"):
        wait_until(socket.exists, "the plugin is served")
        asyncio.run(given(tmp_path, socket, pod))
    ours, folder = tmp_path / STATE_FILE, tmp_path / "device-plugins-of-kubelet"
    kubelet = with_its_folder(kubelet_node.program, folder, tmp_path / "kubelet")
    (folder / ours.name).write_bytes(ours.read_bytes())
    with dataclasses.replace(kubelet_node, program=kubelet).running(home, {}):
        until_ready(plane, f"/api/v1/nodes/{NAME}")
        with numa_plugin(tmp_path / "log", f"--folder={folder}", "d0=0", "d1=0"):
            plane.api.until(
                f"/api/v1/nodes/{NAME}", lambda one: one["status"]["allocatable"].get(RESOURCE) == "2", "two are listed"
            )
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "device"}, "target": {"name": NAME}}
            plane.api.create(f"{pods_path(name='device')}/binding", binding)
            until_ready(plane, pods_path(name="device"))
            kept = json.loads((folder / ours.name).read_bytes())["Data"]["PodDeviceEntries"]
    assert kept == json.loads(ours.read_bytes())["Data"]["PodDeviceEntries"]
