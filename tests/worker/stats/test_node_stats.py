"""Are the responses built from cgroups and runtime with few calls, and as far as possible without the runtime?"""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, cast

import pytest
from prometheus_client.parser import text_string_to_metric_families

from activities.clients.cri_error import CriError
from activities.clients.runtime import RuntimeClient
from activities.machine.process_cgroups import ProcessCgroups
from tests.worker.stats import measured_node as node
from tests.worker.stats.listed_runtime import ListedRuntime
from worker.daemon.config import NodeConfig
from worker.settings.cgroups.agent import AgentProcesses
from worker.stats import node_stats
from worker.stats.cgroups.owners import Owners
from worker.stats.disks.filesystems import file_system_of
from worker.stats.node_stats import NodeStats


def stats(root: Path, runtime: ListedRuntime, **settings: Any) -> NodeStats:
    """Return the stats of the small node with v2 cgroups."""
    config = NodeConfig(node_name="n", root_dir=root / "kubelet", pod_logs_dir=root / "logs", **settings)
    config.root_dir.mkdir(exist_ok=True)
    logs = config.pod_logs_dir / f"default_web_{node.UID}" / "main"
    logs.mkdir(parents=True, exist_ok=True)
    (logs / "0.log").write_text("x")
    return NodeStats(config, cast("RuntimeClient", runtime), node.hierarchies_of_v2(root / "cg"))


def series(text: bytes, name: str) -> dict[str, float]:
    """Return the samples of a name, by container and id."""
    return {
        sample.labels.get("container") or sample.labels.get("id", ""): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
        if sample.name == name
    }


async def test_containers_have_their_names(tmp_path: Path) -> None:
    """From the runtime's lists; the image by name, not by the id in the list."""
    told = await stats(tmp_path, ListedRuntime()).cadvisor()
    assert {"main", "two"} <= series(told, "container_memory_rss").keys()
    assert 'image="docker.io/library/busybox:1.37"' in told.decode()
    assert 'image="registry.k8s.io/pause:3.10.2"' in told.decode()
    assert series(told, "container_scrape_error") == {"": 0}
    assert series(told, "container_fs_limit_bytes")["/"] > 0


async def test_nothing_new_costs_no_call(tmp_path: Path) -> None:
    """What the runtime reported of a container stays valid."""
    runtime = ListedRuntime()
    measured = stats(tmp_path, runtime)
    shutil.rmtree(tmp_path / "cg" / f"{node.POD}/{node.UNKNOWN}".strip("/"))
    await measured.cadvisor()
    before = list(runtime.asked)
    await measured.cadvisor()
    await measured.resource()
    assert runtime.asked == before


async def test_a_cgroup_that_is_nobodys_is_not_asked_for_with_every_scrape() -> None:
    """At most two calls every two seconds."""
    runtime = ListedRuntime()
    owners = Owners(cast("RuntimeClient", runtime))
    for _ in range(5):
        assert await owners.of([node.MAIN, node.UNKNOWN]) == {node.MAIN: (await owners.of([node.MAIN]))[node.MAIN]}
    assert runtime.asked.count("ListContainers") == 1


async def test_without_the_runtime_the_node_is_told_and_the_fault(tmp_path: Path) -> None:
    """A scrape must not fail completely."""
    measured = stats(tmp_path, ListedRuntime(away=True))
    told = await measured.cadvisor()
    assert series(told, "container_scrape_error") == {"": 1}
    assert series(told, "container_memory_rss").keys() == set(node.CGROUPS[:5])
    told = await measured.resource()
    assert series(told, "resource_scrape_error") == {"": 1}
    assert series(told, "node_memory_working_set_bytes")
    assert not series(told, "container_memory_working_set_bytes")


async def test_a_new_container_waits_for_the_runtime_not_the_known_ones(tmp_path: Path) -> None:
    """Known ones stay known when the runtime becomes unavailable."""
    runtime = ListedRuntime()
    measured = stats(tmp_path, runtime)
    await measured.resource()
    runtime.away = True
    assert {"main", "two"} <= series(await measured.resource(), "container_memory_working_set_bytes").keys()


async def test_many_who_ask_at_once_get_one_text(tmp_path: Path) -> None:
    """Otherwise each of them would cost megabytes."""
    measured = stats(tmp_path, ListedRuntime())
    texts = await asyncio.gather(*(measured.cadvisor() for _ in range(20)))
    assert all(one is texts[0] for one in texts)


@pytest.fixture
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip the pause before the second reading."""
    monkeypatch.setattr(node_stats, "_FIRST_PAUSE", 0.01)


@pytest.mark.usefixtures("hurried")
async def test_the_summary_comes_together(tmp_path: Path) -> None:
    """Layers and images from the runtime, logs from their files, CPU rates from two readings, also for the first request."""
    said: dict[str, Any] = json.loads(await stats(tmp_path, ListedRuntime(mountpoint=str(tmp_path))).summary())
    (pod,) = said["pods"]
    main, two = pod["containers"]
    assert main["rootfs"]["usedBytes"] == 4096
    assert main["rootfs"]["capacityBytes"] == said["node"]["fs"]["capacityBytes"]
    assert "rootfs" not in two
    assert main["logs"]["inodesUsed"] == 1
    assert said["node"]["runtime"]["imageFs"]["usedBytes"] == 77
    assert said["node"]["runtime"]["containerFs"] == said["node"]["runtime"]["imageFs"]
    assert main["cpu"]["usageNanoCores"] == 0  # the files do not change


@pytest.mark.usefixtures("hurried")
async def test_writable_layers_on_a_disk_of_their_own_are_told_by_themselves(tmp_path: Path) -> None:
    """In the summary and in the metrics; beside the images they are the same."""
    runtime = ListedRuntime(mountpoint=str(tmp_path), layers="/dev/shm")
    split = stats(tmp_path, runtime)
    said: dict[str, Any] = json.loads(await split.summary())["node"]["runtime"]
    assert (said["imageFs"]["usedBytes"], said["containerFs"]["usedBytes"]) == (77, 88)
    assert said["containerFs"]["capacityBytes"] == file_system_of(Path("/dev/shm")).capacity
    assert file_system_of(Path("/dev/shm")).device in (await split.cadvisor()).decode()
    runtime.layers = str(tmp_path)
    beside: dict[str, Any] = json.loads(await split.summary())["node"]["runtime"]
    assert beside["containerFs"] == beside["imageFs"]


@pytest.mark.usefixtures("hurried")
@pytest.mark.parametrize(
    ("own", "names"),
    [
        pytest.param(AgentProcesses(), ["pods"], id="only-the-pods"),
        pytest.param(AgentProcesses(node.ROOT, "/none"), ["kubelet", "runtime", "pods"], id="as-configured"),
    ],
)
async def test_the_nodes_own_cgroups(
    own: AgentProcesses, names: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of the settings; a cgroup that does not exist is left out."""
    monkeypatch.setattr(node_stats, "own_processes", lambda _: [])
    measured = stats(tmp_path, ListedRuntime(), agent=own, runtime_cgroup=node.POD if "runtime" in names else "")
    for query in (True, False):
        listed = json.loads(await measured.summary(only_cpu_and_memory=query))["node"]["systemContainers"]
        assert [one["name"] for one in listed] == names
        assert {one["memory"]["workingSetBytes"] for one in listed} == {3805184 - 2273280}
        assert all("usageNanoCores" in one["cpu"] for one in listed)


@pytest.mark.usefixtures("hurried")
async def test_the_nodes_processes_are_together_where_they_were_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without kubeletCgroups; one that ended meanwhile is left out."""
    places = {1: node.POD, 2: f"{node.ROOT}/besteffort"}

    def place(_: ProcessCgroups, pid: int) -> str:
        if pid not in places:
            raise FileNotFoundError(pid)
        return places[pid]

    monkeypatch.setattr(node_stats, "own_processes", lambda _: [1, 3, 2])
    monkeypatch.setattr(ProcessCgroups, "of", place)
    (kubelet, _) = json.loads(await stats(tmp_path, ListedRuntime()).summary())["node"]["systemContainers"]
    assert kubelet["name"] == "kubelet"
    assert kubelet["memory"]["workingSetBytes"] == 2 * (3805184 - 2273280)
    assert "psi" not in kubelet["cpu"]


@pytest.mark.usefixtures("hurried")
async def test_the_summary_fails_as_a_whole(tmp_path: Path) -> None:
    """As the kubelet's: a partial list of pods would be taken for complete."""
    with pytest.raises(CriError):
        await stats(tmp_path, ListedRuntime(away=True)).summary()


async def test_what_pods_use_for_evictions(tmp_path: Path) -> None:
    """By uid: memory without inactive page cache, and what its containers use."""
    ((uid, use),) = (await stats(tmp_path, ListedRuntime()).uses()).items()
    assert uid == node.UID
    assert use.memory == 3805184 - 2273280
    assert [one.name for one in use.containers] == ["main", "two"]
    assert {one.memory for one in use.containers} == {use.memory}
    main = use.containers[0]
    assert main.logs is not None
    assert main.logs.used
    assert use.processes == 2 * 2  # of cgroup.procs of each
