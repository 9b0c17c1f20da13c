"""Are settings of containers' memory and logs validated, and refused if this machine cannot obey them?"""

from datetime import timedelta
from pathlib import Path

import pytest

from tests.worker.settings.test_config import load
from tests.worker.settings.test_config_installers import WRITTEN
from worker.daemon import config
from worker.settings.kubelet.configuration import ConfigurationRefused, KubeletConfiguration
from worker.settings.log_rotation import ContainerLogs
from worker.settings.memory import MemorySettings, refuse_what_this_node_has_not

SWAP = "Filename Type Size Used Priority\n/dev/sda2 partition 1 0 -2\n"
NONE = "Filename Type Size Used Priority\n"


@pytest.mark.parametrize(
    ("values", "said", "cgroup_v2", "swaps", "refused"),
    [
        pytest.param({"singleProcessOOMKill": False}, True, False, NONE, "this node has cgroup v1", id="v1-kills-one"),
        pytest.param({"singleProcessOOMKill": False}, True, True, NONE, "", id="v2-kills-all"),
        pytest.param({"singleProcessOOMKill": True}, True, False, NONE, "", id="v1-kills-one-as-asked"),
        pytest.param({"failSwapOn": True}, True, True, SWAP, "swap is on on this node", id="swap-is-on"),
        pytest.param({"failSwapOn": True}, True, True, NONE, "", id="swap-is-off"),
        pytest.param({"failSwapOn": False}, True, True, SWAP, "", id="swap-is-welcome"),
        pytest.param({"failSwapOn": True}, False, True, SWAP, "", id="a-default-refuses-nothing"),
    ],
)
def test_refusals(
    tmp_path: Path, values: dict[str, bool], said: bool, cgroup_v2: bool, swaps: str, refused: str
) -> None:
    """The message names the key and what now."""
    (tmp_path / "swaps").write_text(swaps)
    kubelet = KubeletConfiguration(values, frozenset(values) if said else frozenset())
    if not refused:
        refuse_what_this_node_has_not(kubelet, cgroup_v2=cgroup_v2, swaps=tmp_path / "swaps")
        return
    with pytest.raises(ConfigurationRefused, match=refused):
        refuse_what_this_node_has_not(kubelet, cgroup_v2=cgroup_v2, swaps=tmp_path / "swaps")


@pytest.mark.parametrize(
    ("text", "name", "value"),
    [
        pytest.param("", "memory", MemorySettings(), id="no-swap-and-shared-fate"),
        pytest.param(
            "memorySwap: {swapBehavior: LimitedSwap}\nsingleProcessOOMKill: true\nmemoryThrottlingFactor: 0.5\n"
            "featureGates: {MemoryQoS: true}\nmemoryReservationPolicy: TieredReservation",
            "memory",
            MemorySettings(limited_swap=True, single_process_oom_kill=True, throttling_factor=0.5, tiered=True),
            id="how-memory-is-dealt-with",
        ),
        pytest.param("", "container_logs", ContainerLogs(10 << 20, 5, 1, timedelta(seconds=10)), id="logs-of-10-MiB"),
        pytest.param(
            "containerLogMaxSize: 1k\ncontainerLogMaxFiles: 2\ncontainerLogMaxWorkers: 3\ncontainerLogMonitorInterval: 1m",
            "container_logs",
            ContainerLogs(1000, 2, 3, timedelta(minutes=1)),
            id="how-logs-are-rotated",
        ),
    ],
)
def test_keys_are_obeyed(tmp_path: Path, text: str, name: str, value: object) -> None:
    """By the one field of the configuration that holds them."""
    assert getattr(load(tmp_path, text), name) == value


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("memorySwap: {swapBehavior: Unlimited}", "it is NoSwap or LimitedSwap", id="a-swap-behaviour"),
        pytest.param(
            "memoryThrottlingFactor: 1.5", "1.5, but it must be above 0 and at most 1", id="a-throttling-factor"
        ),
        pytest.param("memoryReservationPolicy: All", "'All', but it is None or TieredReservation", id="a-policy"),
        pytest.param(
            "memoryReservationPolicy: TieredReservation", "needs the feature gate MemoryQoS", id="without-gate"
        ),
        pytest.param("containerLogMaxFiles: 1", "containerLogMaxFiles: 1, but it must be above 1", id="one-log-file"),
        pytest.param(
            "containerLogMaxWorkers: 0", "containerLogMaxWorkers: 0, but it must be 1", id="no-rotation-workers"
        ),
        pytest.param("containerLogMonitorInterval: 2s", "2s, but it must be 3s or longer", id="looks-too-often"),
        pytest.param("containerLogMaxSize: big", "containerLogMaxSize: 'big': ", id="a-size-that-is-none"),
    ],
)
def test_keys_out_of_bounds(tmp_path: Path, text: str, message: str) -> None:
    """The kubelet's own rules."""
    with pytest.raises(ConfigurationRefused) as refused:
        load(tmp_path, text)
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("text", "cgroup_v2", "refused"),
    [
        pytest.param("", False, False, id="v1-without-the-key"),
        pytest.param(WRITTEN, False, False, id="v1-with-kubeadms-file"),
        pytest.param("failCgroupV1: false", False, False, id="v1-is-welcome"),
        pytest.param("failCgroupV1: true", False, True, id="v1-is-not-wanted"),
        pytest.param("failCgroupV1: true", True, False, id="v2"),
    ],
)
def test_cgroup_v1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, cgroup_v2: bool, refused: bool) -> None:
    """A file that nobody has edited runs on v1 and hybrid; the kubelet's default refuses them."""
    controllers = tmp_path / "cgroup.controllers"
    if cgroup_v2:
        controllers.touch()
    monkeypatch.setattr(config, "_CGROUP_V2", controllers)
    if not refused:
        load(tmp_path, text)
        return
    with pytest.raises(ConfigurationRefused, match="failCgroupV1: true, and this node has cgroup v1; set it to false"):
        load(tmp_path, text)
