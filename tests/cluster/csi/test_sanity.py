"""Does the CSI driver of our tests keep what CSI demands, by the official sanity suite?

A test that passes with a driver that breaks the rules says nothing of the node. The suite's tests of what the driver does not offer
are skipped: the table below has them.
"""

import json
import os
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest

from activities.files import mounts
from tests.cluster.csi.programs import SANITY, find_sanity, why_not
from tests.csi.orders import Order, Setup
from tests.csi.process import DriverProcess
from tests.waiting import wait_until

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: the driver mounts")

ABLE: Final = ("STAGE_UNSTAGE_VOLUME", "GET_VOLUME_STATS", "EXPAND_VOLUME")
CONTROLLER: Final = "Controller Service [Controller Server]"
PASSED: Final = {
    "Identity Service GetPluginCapabilities": 1,
    "Identity Service GetPluginInfo": 1,
    "Identity Service Probe": 1,
    "Node Service": 2,
    "Node Service NodeExpandVolume": 4,
    "Node Service NodeGetCapabilities": 1,
    "Node Service NodeGetInfo": 1,
    "Node Service NodeGetVolumeStats": 4,
    "Node Service NodePublishVolume": 3,
    "Node Service NodeStageVolume": 3,
    "Node Service NodeUnpublishVolume": 3,
    "Node Service NodeUnstageVolume": 2,
    f"{CONTROLLER} ControllerGetCapabilities": 1,
    f"{CONTROLLER} CreateVolume": 7,
    f"{CONTROLLER} DeleteVolume": 3,
    f"{CONTROLLER} ValidateVolumeCapabilities": 4,
}
SKIPPED: Final = {
    "Node Service NodeGetStorageHealth": "NodeGetStorageHealth not supported",
    "Node Service NodeGetVolumeHealth": "NodeGetVolumeHealth not supported",
    "Node Service NodePublishVolume": "Service does not have single node multi writer capability",
}
"""Of the node service: what the driver does not offer. Of the controller: attaching, listing, snapshots, groups, health, cloning."""


@pytest.fixture
def driver() -> Iterator[DriverProcess]:
    """Run the driver where no node looks."""
    if reason := why_not(SANITY, "sanity"):
        pytest.skip(reason)
    with tempfile.TemporaryDirectory(prefix="csi.", dir="/tmp") as folder:
        path = Path(folder)
        driver = DriverProcess(path / "driver", path / "registry", Setup(capabilities=ABLE))
        driver.start(registered=False)
        try:
            wait_until((driver.path / "csi.sock").exists, "the driver listens")
            yield driver
        finally:
            driver.__exit__()


def verdicts(driver: DriverProcess, *flags: str) -> list[dict[str, Any]]:
    """Run the suite; returns its report of each test."""
    above = driver.path.parent
    command = [
        *(str(find_sanity()), f"--csi.endpoint=unix://{driver.path}/csi.sock"),
        *(f"--csi.mountdir={above}/mount", f"--csi.stagingdir={above}/staging", "--csi.testvolumesize=1048576"),
        *("--csi.testvolumeexpandsize=2097152", f"--ginkgo.json-report={above}/report.json", "--ginkgo.no-color"),
        *flags,
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    assert (above / "report.json").exists(), done.stdout[-2000:]
    [report] = json.loads((above / "report.json").read_text())
    return [one for one in report["SpecReports"] if one["LeafNodeType"] == "It"]


def group(one: dict[str, Any]) -> str:
    """Name the group of a test."""
    return " ".join(one["ContainerHierarchyTexts"][:2])


def test_the_driver_keeps_the_rules(driver: DriverProcess) -> None:
    """Identity, node, and creating volumes; nothing is left mounted."""
    found = verdicts(driver)
    assert {one["LeafNodeText"]: one["Failure"]["Message"] for one in found if one["State"] == "failed"} == {}
    assert Counter(group(one) for one in found if one["State"] == "passed") == PASSED
    skipped = {group(one): one["Failure"]["Message"] for one in found if one["State"] == "skipped"}
    assert {name: why for name, why in skipped.items() if name.startswith(("Node", "Identity"))} == SKIPPED
    assert mounts.mounts_below(driver.path.parent) == []


def test_a_driver_that_breaks_a_rule_is_found(driver: DriverProcess) -> None:
    """The suite sees it."""
    driver.folder.order("NodeUnpublishVolume", Order(code="INTERNAL", times=1))
    found = verdicts(driver, "--ginkgo.focus=should remove target path")
    assert [one["State"] for one in found if one["State"] in {"passed", "failed"}] == ["failed"]
