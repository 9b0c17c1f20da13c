"""Are drivers asked about the volumes that they have published, and does one that hangs or lies delay nobody?"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from prometheus_client.parser import text_string_to_metric_families

from activities.clients.csi_drivers import CsiDrivers, Driver
from activities.volumes.csi.records.volume import ephemeral_handle
from proto.csi.v1 import csi_pb2 as csi
from tests.activities.volumes.csi.csi_node import CLAIM, NAME, Node, NodeWithDriver
from tests.csi.orders import Order, Setup
from tests.csi.serving import serving
from worker.daemon.background import in_background
from worker.machine.csi_endpoints import EndpointRecord, record_endpoints, recorded_endpoints
from worker.node.process.node_metrics import NodeMetrics
from worker.stats.disks import csi_volumes
from worker.stats.disks.csi_volumes import CsiReads, CsiUsage, CsiVolume, recorded_volume, usage_of
from worker.stats.disks.volumes import Volume, Volumes, VolumeUsage, volumes_of
from worker.stats.prometheus.volume_families import claimed_families
from worker.stats.summaries.summary import _volume
from worker.telemetry.exposition import render

STATS: Final = "NodeGetVolumeStats"
STAGES: Final = "STAGE_UNSTAGE_VOLUME"
COUNTS: Final = (STAGES, "GET_VOLUME_STATS")
JUDGES: Final = (*COUNTS, "VOLUME_CONDITION")
BYTES, INODES = csi.VolumeUsage.BYTES, csi.VolumeUsage.INODES


def reads(endpoints: dict[str, str], *, health: bool = False, keep: float = 60.0, wait: float = 30.0) -> CsiReads:
    """Return what asks the drivers behind these sockets."""
    return CsiReads(lambda: endpoints, keep=keep, wait=wait, health=health)


def volumes_in(node: Node, uid: str, volume: dict[str, Any]) -> list[Volume]:
    """List a pod's volumes that can be measured, from what is on disk."""
    root = node.services.settings.root_dir
    pod = {"metadata": {"uid": uid, "namespace": "default", "name": uid}, "spec": {"volumes": [volume]}}
    points = [line.split()[4] for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    return list(volumes_of(root, pod, frozenset(points)))


@pytest.mark.parametrize(
    ("volume", "spec", "claim"),
    [
        pytest.param(CLAIM, {}, "mine", id="claim"),
        pytest.param(CLAIM, {"volumeMode": "Block"}, "mine", id="claimed-device"),
        pytest.param({"name": "own", "csi": {"driver": NAME}}, {}, "", id="inline"),
    ],
)
async def test_a_driver_is_asked_about_what_it_has_published(
    volume: dict[str, Any], spec: dict[str, Any], claim: str, tmp_path: Path
) -> None:
    """With its handle and target, as by the kubelet; its answer is kept."""
    async with NodeWithDriver(tmp_path, Setup(capabilities=COUNTS)) as node:
        node.driver_object(volumeLifecycleModes=["Persistent", "Ephemeral"])
        node.bind(**spec)
        mounted = await node.mount(node.pod("u1"), volume)
        (found,) = volumes_in(node, "u1", volume)
        measuring = Volumes(reads({NAME: str(node.driver.path / "csi.sock")}))
        use = (await measuring.measure([found]))[found]
        assert await measuring.measure([found]) == {found: use}
        (asked,) = node.driver.calls(STATS)
        handle = "vol-1" if claim else ephemeral_handle("u1", "own")
        path = str(await asyncio.to_thread(Path(mounted.volume.path).readlink)) if spec else mounted.volume.path
        assert asked == {"call": STATS, "volumeId": handle, "volumePath": path}
        assert (found.claim, found.pod_name, use.abnormal) == (claim, "u1", None)
        assert use.capacity >= use.used
        await node.unmount(node.pod("u1"), volume)
        assert volumes_in(node, "u1", volume) == []


async def test_a_driver_that_does_not_count_is_not_asked(tmp_path: Path) -> None:
    """Such a volume has no statistics, as under a kubelet."""
    async with serving(tmp_path / "driver", tmp_path / "reg.sock", Setup(capabilities=(STAGES,))) as driver:
        one = CsiVolume(NAME, "vol-1", str(tmp_path))
        assert await reads({NAME: str(tmp_path / "driver/csi.sock")}).all([one]) == {}
        assert driver.calls(STATS) == []


@pytest.mark.parametrize(
    ("gate", "able", "abnormal"),
    [
        pytest.param(True, JUDGES, True, id="asked"),
        pytest.param(False, JUDGES, None, id="gate-is-off"),
        pytest.param(True, COUNTS, None, id="driver-cannot-say"),
    ],
)
async def test_an_abnormal_volume_is_told(
    gate: bool, able: tuple[str, ...], abnormal: bool | None, tmp_path: Path
) -> None:
    """In the summary, the metrics and one event an answer."""
    told: list[tuple[str, str]] = []
    async with serving(tmp_path / "driver", tmp_path / "reg.sock", Setup(capabilities=able)) as driver:
        driver.condition = "its disk is gone"
        one = measured(CsiVolume(NAME, "vol-1", str(tmp_path)))
        drivers = reads({NAME: str(tmp_path / "driver/csi.sock")}, health=gate)
        measuring = Volumes(drivers, lambda volume, why: told.append((volume.name, why)))
        for _ in range(2):
            use = (await measuring.measure([one]))[one]
    assert use.abnormal is abnormal
    assert told == ([("data", "its disk is gone")] if abnormal else [])
    shown = _volume(one, use)
    assert shown.get("volumeHealthStats") == ({"abnormal": True} if abnormal else None)
    assert shown["pvcRef"] == {"name": "claim", "namespace": "default"}
    samples = health_samples({one: use})
    assert samples == ([({"namespace": "default", "persistentvolumeclaim": "claim"}, 1.0)] if abnormal else [])


def test_a_healthy_volume_is_0_in_metrics() -> None:
    """And one that nobody was asked about has no series."""
    one = measured(CsiVolume(NAME, "vol-1", "/x"))
    assert [value for _, value in health_samples({one: VolumeUsage(0, 1, 1, 0, 1, 1, 0, abnormal=False)})] == [0.0]
    assert health_samples({one: VolumeUsage(0, 1, 1, 0, 1, 1, 0)}) == []


async def test_a_hanging_driver_delays_neither_the_request_nor_another_driver(tmp_path: Path) -> None:
    """Its volumes have no answer, and it is asked by one task, however often somebody wants to know."""
    setup, other = Setup(capabilities=COUNTS), Setup(name="other", capabilities=COUNTS)
    async with (
        serving(tmp_path / "a", tmp_path / "a.sock", setup) as hanging,
        serving(tmp_path / "b", tmp_path / "b.sock", other),
    ):
        hanging.order(STATS, Order(until=str(tmp_path / "never")))
        stuck = [CsiVolume(NAME, f"vol-{number}", str(tmp_path)) for number in range(20)]
        well = CsiVolume("other", "vol-1", str(tmp_path))
        asking = reads({NAME: str(tmp_path / "a/csi.sock"), "other": str(tmp_path / "b/csi.sock")}, wait=0.5)
        answered: dict[CsiVolume, CsiUsage] = {}
        while well not in answered:  # the first may end before a slow machine has asked
            answered = await asking.all([*stuck, well])
        assert set(answered) == {well}
        await asyncio.wait_for(hanging.called[STATS].wait(), 30)
        for _ in range(3):
            await asking.all([*stuck, well])
        assert 0 < hanging.count(STATS) <= csi_volumes.AT_ONCE
        (tmp_path / "never").touch()
        while len(await asking.all([*stuck, well])) < 21:
            pass


async def test_volumes_that_hang_do_not_starve_the_others_of_their_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The next round begins with those that were asked longest ago."""
    monkeypatch.setattr(csi_volumes, "CALL_SECONDS", 0.2)
    monkeypatch.setattr(csi_volumes, "ROUND_SECONDS", 0.3)
    async with serving(tmp_path / "d", tmp_path / "d.sock", Setup(capabilities=COUNTS)) as driver:
        driver.order(STATS, Order(until=str(tmp_path / "never"), times=12))
        some = [CsiVolume(NAME, f"vol-{number}", str(tmp_path)) for number in range(12)]
        asking = reads({NAME: str(tmp_path / "d/csi.sock")}, wait=5)
        while len(await asking.all(some)) < len(some):
            pass
        asked = {one["volumeId"] for one in driver.calls(STATS)[:12]}
        assert len(asked) > csi_volumes.AT_ONCE


@pytest.mark.parametrize(
    "order",
    [
        pytest.param(Order(code="INTERNAL", details="no"), id="refuses"),
        pytest.param(Order(code="NOT_FOUND", details="x" * 100_000), id="too-long-an-error"),
    ],
)
@pytest.mark.parametrize("call", [STATS, "NodeGetCapabilities"])
async def test_a_driver_that_fails_has_no_statistics(order: Order, call: str, tmp_path: Path) -> None:
    """And the next request asks again."""
    async with serving(tmp_path / "d", tmp_path / "d.sock", Setup(capabilities=COUNTS)) as driver:
        driver.order(call, order)
        one = CsiVolume(NAME, "vol-1", str(tmp_path))
        asking = reads({NAME: str(tmp_path / "d/csi.sock"), "gone": str(tmp_path / "gone.sock")})
        assert await asking.all([one, CsiVolume("gone", "v", "/"), CsiVolume("unknown", "v", "/")]) == {}
        driver.order(call, None)
        assert set(await asking.all([one])) == {one}


@pytest.mark.parametrize(
    ("usage", "conditions", "wanted"),
    [
        pytest.param([], False, None, id="nothing-said"),
        pytest.param([], True, (0, 0, 0, 0, 0, 0, False), id="only-a-condition"),
        pytest.param([(BYTES, 9, 5, 4)], False, (9, 5, 4, 0, 0, 0, None), id="bytes-only"),
        pytest.param([(BYTES, 9, 5, 4), (INODES, 3, 2, 1)], False, (9, 5, 4, 3, 2, 1, None), id="both"),
        pytest.param([(BYTES, -9, -5, -(2**63))], False, (0, 0, 0, 0, 0, 0, None), id="negative"),
        pytest.param([(0, 9, 5, 4), (7, 1, 1, 1)], False, (0, 0, 0, 0, 0, 0, None), id="unknown-units"),
        pytest.param([(BYTES, 1, 1, 1)] * 500 + [(BYTES, 2, 2, 2)], False, (2, 2, 2, 0, 0, 0, None), id="the-last"),
    ],
)
def test_an_answer_is_read_as_by_the_kubelet(
    usage: list[tuple[int, int, int, int]], conditions: bool, wanted: tuple[Any, ...] | None
) -> None:
    """csi_client.go NodeGetVolumeStats."""
    made = [csi.VolumeUsage(unit=unit, total=t, available=a, used=u) for unit, t, a, u in usage]  # type: ignore[arg-type]
    found = usage_of(csi.NodeGetVolumeStatsResponse(usage=made), 1.0, conditions=conditions)
    assert (found and found[1:8]) == wanted


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"driverName": "d"}'])
def test_a_damaged_record_hides_only_its_volume(content: str, tmp_path: Path) -> None:
    """It is not measured."""
    (tmp_path / "vol_data.json").write_text(content)
    assert recorded_volume(tmp_path, tmp_path) is None


async def test_the_worker_records_its_drivers(tmp_path: Path) -> None:
    """For the node process; and keeps the record when it stops, because the drivers go on."""
    drivers = CsiDrivers()
    await drivers.add(Driver("a", "/a.sock"))
    recording = EndpointRecord(tmp_path, drivers)
    async with in_background("record", recording.run):
        await drivers.add(b := Driver("b", "unix:///b.sock"))
        await until(tmp_path, {"a": "/a.sock", "b": "unix:///b.sock"})
        drivers.remove(b)
        await until(tmp_path, {"a": "/a.sock"})
    assert recorded_endpoints(tmp_path) == {"a": "/a.sock"}


@pytest.mark.parametrize("content", ["", "{", "[1]", '{"a": 1}', "\udcff"])
def test_a_damaged_record_of_drivers_names_none(content: str, tmp_path: Path) -> None:
    """The worker writes it again."""
    record_endpoints(tmp_path, {})
    (tmp_path / "csi-drivers.json").write_bytes(content.encode(errors="surrogateescape"))
    assert recorded_endpoints(tmp_path) == {}


async def until(state_dir: Path, wanted: dict[str, str]) -> None:
    """Wait until the record says this."""
    async with asyncio.timeout(30):
        while recorded_endpoints(state_dir) != wanted:  # noqa: ASYNC110 - a file: there is no event to await
            await asyncio.sleep(0.01)


def measured(one: CsiVolume) -> Volume:
    """Return a claim's volume."""
    return Volume(
        "u1", "default", "web", "data", "claim", is_local=False, folder=Path(one.path), is_written=False, csi=one
    )


def health_samples(of: dict[Volume, VolumeUsage]) -> list[tuple[dict[str, str], float]]:
    """Return the series of the volumes' health."""

    def found() -> Iterator[tuple[dict[str, str], float]]:
        for family in text_string_to_metric_families(render(claimed_families(of)).decode()):
            for sample in family.samples:
                if sample.name == "kubelet_volume_stats_health_status_abnormal":
                    yield sample.labels, sample.value

    return list(found())


def test_the_record_is_json(tmp_path: Path) -> None:
    """An operator can read it."""
    record_endpoints(tmp_path, {"a": "/a.sock"})
    assert json.loads((tmp_path / "csi-drivers.json").read_text()) == {"a": "/a.sock"}


async def test_how_long_it_took_is_counted(tmp_path: Path) -> None:
    """By what measured it, as the kubelet calls that; also if it failed."""
    (tmp_path / "data").write_bytes(b"x")
    metrics = NodeMetrics()
    async with serving(tmp_path / "d", tmp_path / "d.sock", Setup(capabilities=COUNTS)) as driver:
        driver.order(STATS, Order(times=1, code="INTERNAL"))
        drivers = CsiReads(
            lambda: {NAME: str(tmp_path / "d/csi.sock")}, keep=60, wait=30, health=False, timed=metrics.volume_measured
        )
        measuring = Volumes(drivers, timed=metrics.volume_measured)
        one = measured(CsiVolume(NAME, "vol-1", str(tmp_path)))
        others = [one._replace(csi=None, name=name, is_written=name == "files") for name in ("files", "mounted")]
        assert set(await measuring.measure([one, *others])) == set(others)
        assert set(await measuring.measure([one, *others])) == {one, *others}
    text = metrics.render({})
    name = "kubelet_volume_metric_collection_duration_seconds_count"
    counts = {line for line in text.splitlines() if line.startswith(name)}
    assert counts == {
        f'{name}{{metric_source="{NAME}"}} 2.0',
        f'{name}{{metric_source="du"}} 1.0',
        f'{name}{{metric_source="statfs"}} 1.0',
    }
