"""Does a pod's status show the health that the official test driver reports of its device, also when driver or worker are gone for a while?"""

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.cluster.binaries import NoBinaries
from tests.cluster.cluster_node import ClusterNode, pods_path
from tests.cluster.dra.claims import CLAIMS, claim, device_class, reserve, using
from tests.cluster.dra.official_driver import find_health_driver, official_driver
from tests.node.operating import tempolet
from workflows.decide.claims.health_state import STATE_FILE


@pytest.fixture(scope="module")
def program() -> Path:
    """Return the driver whose devices have the health that the test says."""
    try:
        return find_health_driver()
    except NoBinaries as error:
        pytest.skip(str(error))


def say(driver: subprocess.Popen[bytes], node: ClusterNode, health: str, message: str = "") -> None:
    """Have the driver report the health of the device."""
    assert driver.stdin
    driver.stdin.write(f"{node.name}\tdevice-00\t{health}\t{message}\n".encode())
    driver.stdin.flush()


def until_shown(node: ClusterNode, health: str, message: str | None = None) -> None:
    """Wait until the pod's status shows the health of its one device."""

    def shows(pod: Any) -> bool:
        [container] = pod["status"]["containerStatuses"]
        [entry] = container.get("allocatedResourcesStatus") or [{"name": "", "resources": [{}]}]
        [device] = entry["resources"]
        found = (entry["name"], device.get("health"), device.get("message"))
        return found == ("claim:gpu", health, message)

    node.api.until(pods_path(name="ill"), shows, f"the device is {health}, {message}")


def test_the_health_of_a_pods_device(cluster_node: ClusterNode, slot: int, program: Path) -> None:
    """With the driver's message, which is the last that is known; a restart of the worker changes nothing."""
    node, name = cluster_node, f"tempolet{slot}.health.k8s.io"
    with device_class(node):
        claim(node, "ill", name)
        with official_driver(node, name, str(program)) as driver:
            reserve(node, "ill", using(node, "ill", "ill"))
            node.until_running("ill")
            until_shown(node, "Unknown")
            say(driver, node, "Healthy")
            until_shown(node, "Healthy")
            say(driver, node, "Unhealthy", "it is too hot")
            until_shown(node, "Unhealthy", "it is too hot")
            ill = f"container main: device device-00 of pool {node.name} of driver {name}: not healthy: it is too hot"
            node.until(lambda: ill in tempolet(node, "explain", "default/ill")[1], "explain says it, too")
            before = node.api.get(pods_path(name="ill"))["status"]
            node.stop("worker", signal.SIGTERM)
            kept = json.loads((node.root_dir / STATE_FILE).read_text())[name]["Devices"]
            assert [one["Health"] for one in kept.values()] == ["Unhealthy"]
            node.start_all()
            until_shown(node, "Unhealthy", "it is too hot")
            assert node.api.get(pods_path(name="ill"))["status"] == before
            driver.kill()
            driver.wait()
            until_shown(node, "Unknown")
            node.until(lambda: ill not in tempolet(node, "explain", "default/ill")[1], "nor does explain know")
        with official_driver(node, name, str(program)) as driver:
            say(driver, node, "Healthy")
            until_shown(node, "Healthy")
            node.api.delete(pods_path(name="ill"), gracePeriodSeconds=1)
            node.until_pod_gone("ill")
        node.api.delete(f"{CLAIMS}/ill")
