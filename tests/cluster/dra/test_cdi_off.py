"""What does a pod with a claim say when CDI is switched off in containerd, which would start its container without the device?

containerd 1.7 has it off by default; the containerd at hand is told so.
"""

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.binaries import NoBinaries
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.control_plane import ControlPlane
from tests.cluster.dra.claims import CLAIMS, claim, device_class, reserve, using
from tests.cluster.dra.official_driver import find_driver, official_driver
from tests.node.standalone.private_containerd import private_containerd
from worker.standalone import containerd as containerd_module
from worker.standalone.containerd import Containerd
from worker.standalone.containerd_config import containerd_config
from worker.standalone.temporal_server import TemporalServer

OFF = "CDI is switched off in containerd, which would start it without them: set enable_cdi = true"


@pytest.fixture
def without_cdi(node_dir: Path, slot: int, monkeypatch: pytest.MonkeyPatch) -> Iterator[Containerd]:
    """Run a containerd with enable_cdi = false."""

    def config(*args: Any) -> str:
        return containerd_config(*args).replace("enable_cdi = true", "enable_cdi = false")

    monkeypatch.setattr(containerd_module, "containerd_config", config)
    folder = node_dir / "cdi"
    folder.mkdir()
    with private_containerd(folder, slot) as daemon:
        yield daemon
    shutil.rmtree(folder)


def test_a_pod_with_a_claim_says_that_cdi_is_off(
    node_dir: Path, without_cdi: Containerd, temporal: TemporalServer, plane: ControlPlane, node_ip: str, slot: int
) -> None:
    """In its status and in an event; its container is not started, and a pod without claims is."""
    try:
        find_driver()
    except NoBinaries as error:
        pytest.skip(str(error))
    name = f"tempolet{slot}.off.k8s.io"
    folder = node_dir / "off"  # a path that is short enough for the driver's socket
    folder.mkdir()
    with ClusterNode(folder, containerd=without_cdi, temporal=temporal, plane=plane, node_ip=node_ip) as node:
        node.until_started()
        with device_class(node), official_driver(node, name):
            claim(node, "off", name)
            reserve(node, "off", using(node, "off", "off"))

            def told(pod: Any) -> bool:
                [container] = pod["status"].get("containerStatuses") or [{}]
                waiting = (container.get("state") or {}).get("waiting") or {}
                return waiting.get("reason") == "CreateContainerConfigError" and OFF in waiting.get("message", "")

            node.api.until(pods_path(name="off"), told, "its status says so")
            events = "/api/v1/namespaces/default/events?fieldSelector=involvedObject.name%3Doff,reason%3DFailed"
            node.api.until(
                events, lambda found: any(OFF in one["message"] for one in found["items"]), "and an event does"
            )
            node.run_pod("plain", automountServiceAccountToken=False)
            for pod in ("off", "plain"):
                node.api.delete(pods_path(name=pod), gracePeriodSeconds=1)
                node.until_pod_gone(pod)
        node.api.delete(f"{CLAIMS}/off")
