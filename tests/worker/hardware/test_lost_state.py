"""Is what the runtime says of containers enough to give them back what they had, and is nothing else taken for it?"""

import asyncio
import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from structlog.testing import capture_logs

from activities.clients.cri_error import CriError
from activities.hardware.services import HardwareRefused
from proto.cri.ownership import DEVICES_ANNOTATION, HOOK_LABEL, NODE_ANNOTATION
from proto.cri.runtime_container import RuntimeContainer
from proto.cri.v1 import api_pb2 as cri
from proto.temporal.hardware.ledger import AllocateHardware, ContainerAssignment, PodAssignment
from tests.worker.hardware.test_exclusive_cpus import on_disk, pod, root_dir, settings
from worker.hardware import node_hardware, runtime_containers
from worker.hardware.exclusive_cpus import ExclusiveCpus, load_cpus
from worker.hardware.node_hardware import LEDGER_WITHIN, NodeHardware
from worker.hardware.runtime_containers import RuntimeContainers
from worker.settings.hardware.cpu_manager import CpuManager
from workflows.decide.cpus.state_file import STATE_FILE

__all__ = ["root_dir", "settings"]  # fixtures

OWN = RuntimeContainer("a", "c0", is_guaranteed=True, cpu_shares=2048, cpuset_cpus="1-2")
ODD = RuntimeContainer("b", "c0", is_guaranteed=True, cpu_shares=1024, cpuset_cpus="1-9999999")


def loaded(settings: CpuManager, root_dir: Path, *left: RuntimeContainer) -> ExclusiveCpus:
    """Load what is left."""
    found = load_cpus(settings, root_dir, left=lambda: left)
    assert found is not None
    return found


async def test_a_lost_file_is_written_again(settings: CpuManager, root_dir: Path) -> None:
    """Before anybody is admitted; what cannot be read is in the log."""
    with capture_logs() as logs:
        hardware = NodeHardware([loaded(settings, root_dir, OWN, ODD)])
    assert on_disk(root_dir) == ("0,3", {"a": {"c0": "1-2"}})
    assert [one["log_level"] for one in logs] == ["info", "warning"]
    assert hardware.of("a", "c0").cpuset_cpus == "1-2"
    assert hardware.of("b", "c0").cpuset_cpus == "0,3"
    other = await hardware.allocate(AllocateHardware(pod("b", 1), counting=("a",)))
    again = await hardware.allocate(AllocateHardware(pod("a", 2), {"b": other}, ("b",)))
    assert (other.containers["c0"].cpus, again.containers["c0"].cpus) == ("3", "1-2")


@pytest.mark.jumping_clock
async def test_a_container_waits_for_the_ledger(settings: CpuManager, root_dir: Path) -> None:
    """If a file is lost, and not for ever: nobody may answer."""
    given = {"a": PodAssignment("default", "a", {"c0": ContainerAssignment("1-2")})}
    hardware = NodeHardware([loaded(settings, root_dir)], is_lost=True)
    starting = asyncio.create_task(hardware.starting("a", {"name": "c0"}))
    await asyncio.sleep(LEDGER_WITHIN - 1)
    assert not starting.done()
    await hardware.take_ledger(given)
    await starting
    assert hardware.of("a", "c0").cpuset_cpus == "1-2"
    assert on_disk(root_dir) == ("0,3", {"a": {"c0": "1-2"}})
    assert not hardware.awaits_ledger
    silent, loop = NodeHardware([loaded(settings, root_dir)], is_lost=True), asyncio.get_running_loop()
    begun = loop.time()
    for _ in range(2):
        await silent.starting("a", {"name": "c0"})
        assert LEDGER_WITHIN <= loop.time() - begun < LEDGER_WITHIN + 5
    known = NodeHardware([loaded(settings, root_dir)])
    assert not known.awaits_ledger


def test_the_runtime_is_asked_for_a_lost_file_only(settings: CpuManager, root_dir: Path) -> None:
    """What is on disk counts, whatever the runtime says."""
    loaded(settings, root_dir)
    assert on_disk(root_dir) == ("0-3", {})
    loaded(settings, root_dir, OWN)
    assert on_disk(root_dir) == ("0-3", {})
    (root_dir / STATE_FILE).unlink()
    assert load_cpus(CpuManager(), root_dir, left=lambda: pytest.fail("it is asked")) is None
    assert json.loads((root_dir / STATE_FILE).read_text())["policyName"] == "none"


async def test_a_pod_that_its_source_has_not_listed_yet_keeps_them(
    settings: CpuManager, root_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For some minutes: afterwards it is over if nobody knows it."""
    now = 1000.0
    monkeypatch.setattr(node_hardware, "monotonic", lambda: now)
    hardware = NodeHardware([loaded(settings, root_dir, OWN)])
    hardware.found({"a"})
    with pytest.raises(HardwareRefused, match="available=1"):
        await hardware.allocate(AllocateHardware(pod("b", 3)))
    now += node_hardware.FOUND_FOR
    assert (await hardware.allocate(AllocateHardware(pod("b", 3)))).containers["c0"].cpus == "1-3"


@dataclass
class Runtime:
    """Lists fixed sandboxes and containers; some statuses fail."""

    sandboxes: list[cri.PodSandbox] = field(default_factory=list)
    containers: list[cri.Container] = field(default_factory=list)
    statuses: dict[str, cri.ContainerStatus] = field(default_factory=dict)
    fails: dict[str, list[grpc.StatusCode]] = field(default_factory=dict)

    def has(self, key: str, uid: str, name: str, state: cri.ContainerState = cri.CONTAINER_RUNNING, **of: Any) -> None:
        """Add a container and its sandbox."""
        annotations = {NODE_ANNOTATION: of["node"]} if "node" in of else {}
        self.sandboxes.append(
            cri.PodSandbox(
                id=f"s-{key}",
                metadata=cri.PodSandboxMetadata(uid=uid),
                state=of.get("sandbox", cri.SANDBOX_READY),
                annotations=annotations,
            )
        )
        named, created = cri.ContainerMetadata(name=name), of.get("created", 1)
        self.containers.append(
            cri.Container(
                id=key,
                pod_sandbox_id=f"s-{key}",
                metadata=named,
                state=state,
                created_at=created,
                labels=of.get("labels", {}),
                annotations={DEVICES_ANNOTATION: f"devices of {key}"},
            )
        )
        linux = cri.LinuxContainerResources(cpuset_cpus=key, cpu_shares=1024)
        self.statuses[key] = cri.ContainerStatus(
            id=key, metadata=named, state=state, created_at=created, resources=cri.ContainerResources(linux=linux)
        )

    async def list_pod_sandbox(self) -> list[cri.PodSandbox]:
        """List all."""
        return self.sandboxes

    async def list_containers(self) -> list[cri.Container]:
        """List all."""
        return self.containers

    async def container_status(self, container_id: str) -> cri.ContainerStatus:
        """Answer, or fail as often as is said."""
        if fails := self.fails.get(container_id):
            raise CriError("ContainerStatus", fails.pop(0), "failed")
        return self.statuses[container_id]

    async def close(self) -> None:
        """Do nothing."""


@pytest.fixture
def runtime(monkeypatch: pytest.MonkeyPatch) -> Runtime:
    """Have it asked, without a pause."""
    made = Runtime()
    monkeypatch.setattr(runtime_containers, "RuntimeClient", lambda *_: made)
    monkeypatch.setattr(runtime_containers, "PAUSE", 0.0)
    return made


async def left(*folders: str) -> dict[str, str]:
    """Return the sets that were read, by pod and container."""
    known = RuntimeContainers("unix:///fake", "n", lambda: folders, lambda uid: uid == "ours")
    found = await asyncio.to_thread(known.left)
    assert await asyncio.to_thread(known.left) is found
    devices = await asyncio.to_thread(known.with_devices)
    assert {one.devices for one in devices} >= {f"devices of {one.cpuset_cpus}" for one in found}
    assert all(one.is_guaranteed is (one.uid == "ours") for one in found)
    return {f"{one.uid}/{one.name}": one.cpuset_cpus for one in found}


async def test_whose_containers_count(runtime: Runtime) -> None:
    """This node's own, the newest of each name, and those that may start again; no hook's."""
    runtime.has("1", "ours", "c", node="n")
    runtime.has("2", "theirs", "c", node="other")
    runtime.has("3", "a-kubelets", "c")
    runtime.has("4", "unknown", "c")
    runtime.has("5", "ours", "hook", node="n", labels={HOOK_LABEL: "postStart"})
    runtime.has("6", "ours", "ended", cri.CONTAINER_EXITED, node="n", created=2)
    runtime.has("7", "ours", "ended", cri.CONTAINER_EXITED, node="n", created=1)
    runtime.has("8", "over", "c", cri.CONTAINER_EXITED, node="n", sandbox=cri.SANDBOX_NOTREADY)
    runtime.has("9", "x" * 300, "c", node="n")
    assert await left("a-kubelets") == {"ours/c": "1", "a-kubelets/c": "3", "ours/ended": "6"}


async def test_a_runtime_that_does_not_tell_of_a_container(runtime: Runtime) -> None:
    """It is asked again, one that is gone is not; the others are read."""
    away = grpc.StatusCode.UNAVAILABLE
    for key, fails in {"1": [away] * 2, "2": [away] * 3, "3": [grpc.StatusCode.NOT_FOUND], "4": []}.items():
        runtime.has(key, key, "c", node="n")
        runtime.fails[key] = fails
    with capture_logs() as logs:
        assert await left() == {"1/c": "1", "4/c": "4"}
    assert [one["containerID"] for one in logs] == ["2"]


async def test_what_was_not_told_is_read_again(runtime: Runtime) -> None:
    """As often as it is asked for; what was read at first is remembered to have been incomplete."""
    runtime.has("1", "1", "c", node="n")
    runtime.has("2", "2", "c", node="n")
    runtime.fails["2"] = [grpc.StatusCode.UNAVAILABLE] * 6
    known = RuntimeContainers("unix:///fake", "n")
    assert [one.cpuset_cpus for one in await asyncio.to_thread(known.left)] == ["1"]
    assert known.was_incomplete
    assert known.unread == {"2"}
    assert [one.cpuset_cpus for one in await known.read_again()] == ["1"]
    assert known.unread == {"2"}
    assert [one.cpuset_cpus for one in await known.read_again()] == ["1", "2"]
    assert known.was_incomplete
    assert not known.unread


async def test_a_container_that_hangs_does_not_keep_the_worker_from_starting(
    runtime: Runtime, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many do: the others are read, and these are waited for afterwards."""
    status, hanging = runtime.container_status, {str(number) for number in range(20)}
    for key in (*sorted(hanging), "told"):
        runtime.has(key, key, "c", node="n")
    runtime.containers.reverse()

    async def hangs(container_id: str) -> cri.ContainerStatus:
        if container_id in hanging:
            await asyncio.Event().wait()
        return await status(container_id)

    monkeypatch.setattr(runtime, "container_status", hangs)
    monkeypatch.setattr(runtime_containers, "READ_WITHIN", 0.5)
    known = RuntimeContainers("unix:///fake", "n")
    assert [one.name for one in await asyncio.to_thread(known.left)] == ["c"]
    assert known.was_incomplete
    assert known.unread == hanging


async def test_a_runtime_that_is_away_tells_of_no_devices(runtime: Runtime, monkeypatch: pytest.MonkeyPatch) -> None:
    """The worker starts all the same: the checkpoint says who has which, as a rule."""

    async def away() -> list[cri.PodSandbox]:
        raise CriError("ListPodSandbox", grpc.StatusCode.UNAVAILABLE, "away")

    monkeypatch.setattr(runtime, "list_pod_sandbox", away)
    known = RuntimeContainers("unix:///fake", "n")
    assert not await asyncio.to_thread(known.with_devices)
    with pytest.raises(CriError):
        await asyncio.to_thread(known.left)
