"""Does the log name the plugin that failed a pod, whose message is the kubelet's and names none?"""

from pathlib import Path
from typing import Any

import pytest
import structlog

from activities.clients.device_plugins import device_plugin
from activities.hardware.services import HardwareRefused
from proto.deviceplugin.v1beta1 import api_pb2 as api
from tests.worker.devices.lying_plugin import Faults, devices, serving
from tests.worker.devices.test_device_manager import ANSWER, GPU, node, pod
from workflows.decide.topology.hints import ANY

LATE = "rpc error: code = DeadlineExceeded desc = Deadline Exceeded"


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait for plugins for half a second."""
    for name in ("ALLOCATE_SECONDS", "PREFERRED_SECONDS", "PRE_START_SECONDS"):
        monkeypatch.setattr(device_plugin, name, 0.5)


@pytest.mark.parametrize(
    ("faults", "call", "why"),
    [
        pytest.param({"hangs": frozenset({"Allocate"})}, "Allocate", LATE, id="hangs"),
        pytest.param(
            {"answer": api.AllocateResponse()}, "Allocate", "no containers return in allocation response", id="answers-nothing"
        ),
        pytest.param(
            {"hangs": frozenset({"GetPreferredAllocation"}), "preferred": ["a"]},
            "GetPreferredAllocation",
            f"device plugin GetPreferredAllocation rpc failed with err: {LATE}",
            id="hangs-at-what-it-prefers",
        ),
    ],
)  # fmt: skip
async def test_an_allocation_that_fails(tmp_path: Path, faults: dict[str, Any], call: str, why: str) -> None:
    """One warning with all names, and the kubelet's words for the pod."""
    told = Faults(**{"lists": [devices("a", "b")], "answer": ANSWER, **faults})
    async with serving(tmp_path / "p", told), node(tmp_path / "root", tmp_path / "p") as here:
        with structlog.testing.capture_logs() as lines, pytest.raises(HardwareRefused) as refused:
            await here.manager.allocate(pod("u"), "app", ANY)
    assert str(refused.value) == f"Allocate failed due to {why}, which is unexpected"
    assert [line for line in lines if line["log_level"] == "warning"] == [
        {
            "log_level": "warning",
            "event": "a device plugin failed a pod",
            "call": call,
            "resource": GPU,
            "socket": str(tmp_path / "p"),
            "pod": "default/u",
            "podUID": "u",
            "containerName": "app",
            "error": why,
        }
    ]


async def test_what_no_plugin_is_to_blame_for(tmp_path: Path) -> None:
    """Is not told of one."""
    told = Faults(lists=[devices("a")], answer=ANSWER, preferred=["a"])
    async with serving(tmp_path / "p", told), node(tmp_path / "root", tmp_path / "p") as here:
        with structlog.testing.capture_logs() as lines, pytest.raises(HardwareRefused):
            await here.manager.allocate(pod("u", 2), "app", ANY)
    assert lines == []


async def test_a_start_that_fails(tmp_path: Path) -> None:
    """As an allocation; only the pod's uid is known."""
    told = Faults(lists=[devices("a")], answer=ANSWER, is_prestarted=True, hangs=frozenset({"PreStartContainer"}))
    async with serving(tmp_path / "p", told), node(tmp_path / "root", tmp_path / "p") as here:
        await here.manager.allocate(pod("u"), "app", ANY)
        with (
            structlog.testing.capture_logs() as lines,
            pytest.raises(HardwareRefused, match="PreStartContainer rpc failed"),
        ):
            await here.manager.starting("u", pod("u")["spec"]["containers"][0])
    assert [(one["call"], one["resource"], one["socket"], one["podUID"]) for one in lines] == [
        ("PreStartContainer", GPU, str(tmp_path / "p"), "u")
    ]
