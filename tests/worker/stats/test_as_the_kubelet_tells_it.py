"""Do our metrics match those of kubelet 1.36.3, recorded in kubelet_1_36.json, name by name?

Recorded on this machine (cgroup v1) from the real kubelet with three pods. Each omission has its reason here.
"""

import json
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tests.worker.stats import measured_node as node
from worker.stats.cgroups.pod_cgroups import pod_cgroups
from worker.stats.cgroups.pod_readings import NodeReading, read_node
from worker.stats.cgroups.system_containers import SystemContainer, read_system
from worker.stats.cgroups.usage import CgroupReader
from worker.stats.disks.filesystems import FileSystem
from worker.stats.disks.log_use import FileUsage
from worker.stats.disks.node_disks import PodDisks, UsedDisk, WritableLayer
from worker.stats.prometheus.cadvisor_families import families
from worker.stats.prometheus.container_rows import Row, read_rows
from worker.stats.prometheus.machine_families import machine_families
from worker.stats.prometheus.resource_families import OwnedUsage, resource_families
from worker.stats.summaries.machine import Machine
from worker.stats.summaries.summary import brief_summary, summary
from worker.telemetry.exposition import Family, render

RECORDED = json.loads((Path(__file__).parent / "kubelet_1_36.json").read_text())
DISK = FileSystem(1000.0, "254:0", "/dev/vda", 1000, 600, 400, 100, 60)
ALWAYS_ZERO = "the kubelet always tells 0 or -1, for it never counts it"
NO_DASHBOARD = "of the node's own disks; node-exporter's business, no dashboard of a kubelet asks"
HARDWARE = "hardware that cAdvisor tells as 0 nearly everywhere"
LEFT_OUT = {
    "container_cpu_load_average_10s": ALWAYS_ZERO,
    "container_cpu_load_d_average_10s": ALWAYS_ZERO,
    "container_tasks_state": ALWAYS_ZERO,
    "container_health_state": ALWAYS_ZERO,
    "container_ulimits_soft": "one more file a process and scrape for what no dashboard asks",
    "container_fs_io_current": NO_DASHBOARD,
    "container_fs_io_time_seconds_total": NO_DASHBOARD,
    "container_fs_io_time_weighted_seconds_total": NO_DASHBOARD,
    "container_fs_read_seconds_total": NO_DASHBOARD,
    "container_fs_reads_merged_total": NO_DASHBOARD,
    "container_fs_sector_reads_total": NO_DASHBOARD,
    "container_fs_sector_writes_total": NO_DASHBOARD,
    "container_fs_write_seconds_total": NO_DASHBOARD,
    "container_fs_writes_merged_total": NO_DASHBOARD,
    "machine_cpu_books": HARDWARE,
    "machine_cpu_drawers": HARDWARE,
    "machine_nvm_avg_power_budget_watts": HARDWARE,
    "machine_nvm_capacity": HARDWARE,
    "container_scrape_error": "added by NodeStats, see test_node_stats",
    "machine_scrape_error": "added by NodeStats, see test_node_stats",
}


@pytest.fixture(params=["v1", "v2"])
def reader(request: pytest.FixtureRequest, tmp_path: Path) -> CgroupReader:
    """Return readers of the small node's cgroups, v1 and v2."""
    return node.reader_of_v1(tmp_path) if request.param == "v1" else node.reader_of_v2(tmp_path)


def rows_of(reader: CgroupReader) -> list[Row]:
    """Read its rows; its processes are not real, so their network devices are given."""
    rows = read_rows(reader, pod_cgroups(reader, node.NAMES), node.OWNERS, 10.0)
    for row in rows:
        row.devices = [node.DEVICE] if node.SANDBOX in row.labels else []
    return rows


def samples(told: Iterator[Family] | list[Family]) -> dict[str, list[tuple[str, Sample]]]:
    """Parse families with Prometheus' own parser: by name, with their kind."""
    found: dict[str, list[tuple[str, Sample]]] = {}
    for family in text_string_to_metric_families(render(told).decode()):
        for sample in family.samples:
            found.setdefault(sample.name, []).append((family.type, sample))
    return found


def cadvisor(reader: CgroupReader) -> dict[str, list[tuple[str, Sample]]]:
    """Return all families of /metrics/cadvisor that come from rows."""
    return samples([*families(rows_of(reader), [DISK], {"254:0": "/dev/vda"}), *machine_families()])


def read(reader: CgroupReader, *, whole: bool) -> NodeReading:
    """Read the small node for the summary."""
    found = read_node(reader, list(pod_cgroups(reader, node.NAMES)), node.OWNERS, whole=whole)
    found.system = list(read_system(reader, [SystemContainer("pods", [node.ROOT])], whole=whole))
    for pod in found.pods:
        pod.devices = [node.DEVICE]
    return found


def resource(reader: CgroupReader) -> dict[str, list[tuple[str, Sample]]]:
    """Return all families of /metrics/resource."""
    found = read(reader, whole=False)
    used = [OwnedUsage(pod.sandbox, pod.usage) for pod in found.pods]
    used += [OwnedUsage(one.owner, one.usage) for pod in found.pods for one in pod.containers]
    return samples(list(resource_families(found.node, used, failed=False)))


@pytest.mark.parametrize(
    ("path", "told"),
    [
        pytest.param("/metrics/cadvisor", cadvisor, id="cadvisor"),
        pytest.param("/metrics/resource", resource, id="resource"),
    ],
)
def test_every_series_of_the_kubelet_is_there(
    path: str, told: Callable[[CgroupReader], dict[str, list[tuple[str, Sample]]]], reader: CgroupReader
) -> None:
    """With the same kind, labels and timestamps; each omission has a reason."""
    ours = told(reader)
    for name, expected in RECORDED[path].items():
        if name in LEFT_OUT:
            assert name not in ours
            continue
        assert name in ours, f"{name} is missing"
        for kind, sample in ours[name]:
            assert kind == expected["type"], name
            assert sorted(sample.labels) == expected["labels"], name
            assert (sample.timestamp is not None) == expected["timed"], name


def test_rows_are_labelled_as_the_kubelet_labels_them(reader: CgroupReader) -> None:
    """Tiers have no pod, the pod has no container, the sandbox no container name; cgroups without an owner are omitted."""
    found = {sample.labels["id"]: sample.labels for _, sample in cadvisor(reader)["container_memory_working_set_bytes"]}
    unnamed = {"container": "", "image": "", "name": ""}
    of_pod = {"namespace": "default", "pod": "web"}
    nobody = {"namespace": "", "pod": ""}
    pause = {"container": "", "image": "registry.k8s.io/pause:3.10.2", "name": node.SANDBOX}
    assert found == {
        "/": unnamed | nobody | {"id": "/"},
        **{path: unnamed | nobody | {"id": path} for path in node.CGROUPS[1:4]},
        node.POD: unnamed | of_pod | {"id": node.POD},
        f"{node.POD}/{node.SANDBOX}": pause | of_pod | {"id": f"{node.POD}/{node.SANDBOX}"},
        f"{node.POD}/{node.MAIN}": of_pod
        | {"container": "main", "image": 'busybox:"1"', "name": node.MAIN, "id": f"{node.POD}/{node.MAIN}"},
        f"{node.POD}/{node.TWO}": of_pod
        | {"container": "two", "image": "busybox:1", "name": node.TWO, "id": f"{node.POD}/{node.TWO}"},
    }


def test_only_v2_tells_how_long_was_waited(tmp_path: Path) -> None:
    """If the kernel does not count it, 0 would be wrong."""
    assert "container_pressure_cpu_waiting_seconds_total" not in cadvisor(node.reader_of_v1(tmp_path / "1"))
    waited = cadvisor(node.reader_of_v2(tmp_path / "2"))["container_pressure_cpu_waiting_seconds_total"]
    assert {sample.value for _, sample in waited} == {2.5}


def test_the_network_is_the_sandboxs(reader: CgroupReader) -> None:
    """Once for each pod, by device."""
    ((_, sample),) = cadvisor(reader)["container_network_receive_bytes_total"]
    assert (sample.labels["interface"], sample.labels["pod"], sample.value) == ("eth0", "web", 2306)


def test_containers_that_are_gone_vanish(tmp_path: Path) -> None:
    """Only cgroups are listed."""
    reader = node.reader_of_v2(tmp_path)
    shutil.rmtree(tmp_path / f"{node.POD}/{node.TWO}".strip("/"))
    names = {sample.labels["container"] for _, sample in cadvisor(reader)["container_memory_rss"]}
    assert names == {"", "main"}


def keys_of(value: Any, path: str = "") -> Iterator[str]:
    """Return the path of every value in JSON."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield from keys_of(one, f"{path}.{key}")
    elif isinstance(value, list):
        for one in value:
            yield from keys_of(one, f"{path}[]")
    else:
        yield path.lstrip(".")


MACHINE = Machine(
    name="n",
    boot_time=10,
    memory=1 << 35,
    swap=0,
    disk=DISK,
    images=UsedDisk(DISK, 5, 6),
    containers=UsedDisk(DISK, 5, 6),
    devices=[node.DEVICE],
    most_processes=32768,
    processes=292,
)
RATES = {"/": 1, "pods": 2, node.POD: 3, f"{node.POD}/{node.MAIN}": 4, f"{node.POD}/{node.TWO}": 5}


def test_the_summary_has_the_kubelets_fields(tmp_path: Path) -> None:
    """For v2, which has all of them."""
    found = read(node.reader_of_v2(tmp_path), whole=True)
    disks = PodDisks(
        layers={node.MAIN: WritableLayer(1.0, DISK, 7, 8)},
        logs={node.MAIN: FileUsage(9, 1)},
        hosts={node.UID: FileUsage(4096, 1)},
    )
    told = summary(MACHINE, found, RATES, disks)
    missing = set(RECORDED["/stats/summary"]) - set(keys_of(told))
    assert missing == set()
    (pod,) = told["pods"]
    assert pod["podRef"] == {"name": "web", "namespace": "default", "uid": node.UID}
    assert [one["name"] for one in pod["containers"]] == ["main", "two"]
    assert pod["ephemeral-storage"]["usedBytes"] == 7 + 9 + 4096
    assert pod["ephemeral-storage"]["inodesUsed"] == 8 + 1 + 1
    assert pod["cpu"]["usageNanoCores"] == 3
    assert pod["containers"][0]["memory"]["availableBytes"] == 67108864 - 1531904


def test_the_brief_summary_has_the_kubelets_fields(tmp_path: Path) -> None:
    """metrics-server used it before /metrics/resource."""
    told = brief_summary(MACHINE, read(node.reader_of_v2(tmp_path), whole=False), RATES)
    missing = set(RECORDED["/stats/summary?only_cpu_and_memory=true"]) - set(keys_of(told))
    assert {one for one in missing if ".psi." not in one} == set()
