"""Does the PodResources API answer what its clients expect, over its socket: pods with containers, and what these have?"""

import asyncio
import json
import os
import stat
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from proto.dra.claims import Claim, PreparedDevice
from proto.node_devices import (
    UnansweredDevices,
    healthy_devices_path,
    unanswered_devices_path,
    write_healthy_devices,
    write_unanswered_devices,
)
from proto.pod_snapshot import PodSnapshot, pod_path, snapshot_path
from proto.podresources.v1 import api_pb2 as api
from proto.podresources.v1 import api_pb2_grpc
from proto.podresources.v1alpha1 import api_pb2 as alpha
from proto.podresources.v1alpha1 import api_pb2_grpc as alpha_grpc
from tests.patience import PATIENCE
from tests.workflows.decide.cpus.machines import machine
from worker.node.pod_resources.server import BURST, LARGEST_REQUEST, QPS, SOCKET, RateLimit, serve_pod_resources
from worker.node.process.dependencies import NodeDependencies
from worker.node.process.node_metrics import NodeMetrics
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.hardware.memory_manager import MemoryManager
from worker.settings.kubelet.feature_gates import ACTIVE_PODS_GATE, POD_RESOURCES_GATE, FeatureGates
from workflows.decide.claims.accounts import ClaimAccount
from workflows.decide.claims.checkpoint import STATE_FILE as CLAIMS_FILE
from workflows.decide.claims.checkpoint import written_checkpoint as written_claims
from workflows.decide.cpus.options import Options
from workflows.decide.cpus.state_file import written_state
from workflows.decide.cpus.static_policy import Assignments, static_policy
from workflows.decide.devices.assignments import Assigned
from workflows.decide.devices.assignments import Assignments as DevicesAssigned
from workflows.decide.devices.checkpoint import STATE_FILE as DEVICES_FILE
from workflows.decide.devices.checkpoint import Checkpoint, written_checkpoint
from workflows.decide.memory_nodes import state_file as memory_state
from workflows.decide.memory_nodes.amounts import Assignments as Memory
from workflows.decide.memory_nodes.amounts import Block
from workflows.decide.memory_nodes.static_policy import NodeMemory, idle_machine


def write_pod(root_dir: Path, name: str, phase: str = "Running", **more: Any) -> None:
    """Write a pod where the worker does; `more` is in its object."""
    snapshot = PodSnapshot(f"pod/n/default/{name}/{name}", "n", "default", name, name, "api", "", "sync", phase)
    always = {"name": "sidecar", "restartPolicy": "Always"}
    spec = {"initContainers": [{"name": "first"}, always], "containers": [{"name": "main"}]}
    pod = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec} | more
    snapshot_path(root_dir, name).parent.mkdir(parents=True)
    snapshot_path(root_dir, name).write_bytes(snapshot.to_json())
    pod_path(root_dir, name).write_text(json.dumps(pod))


@pytest.fixture(params=[pytest.param("", id="short-path"), pytest.param("d" * 150, id="long-path")])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Path]:
    """Serve two pods, one of which has ended; yields the root directory."""
    root_dir = tmp_path / request.param
    write_pod(root_dir, "web")
    write_pod(root_dir, "done", "Succeeded")
    async with serving(root_dir):
        yield root_dir
    assert not (root_dir / SOCKET).exists()


@asynccontextmanager
async def serving(root_dir: Path, metrics: NodeMetrics | None = None, **settings: Any) -> AsyncIterator[None]:
    """Serve while the block runs."""
    config = SimpleNamespace(
        **{
            "root_dir": root_dir,
            "cpu_manager": CpuManager(),
            "memory_manager": MemoryManager(),
            "feature_gates": FeatureGates(),
        }
        | settings
    )
    around = cast("NodeDependencies", SimpleNamespace(config=config, metrics=metrics or NodeMetrics()))
    task = asyncio.create_task(serve_pod_resources(around))
    while not (root_dir / SOCKET).exists():
        await asyncio.sleep(0.01)
        assert not task.done()
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def ask(root_dir: Path, method: str, request: Any, stub: Any = api_pb2_grpc.PodResourcesListerStub) -> Any:
    """Make one call as an agent does; a long path through its folder's descriptor."""
    folder = os.open(root_dir / SOCKET.parent, os.O_PATH)
    try:
        async with grpc.aio.insecure_channel(f"unix:/proc/self/fd/{folder}/{SOCKET.name}") as channel:
            return await getattr(stub(channel), method)(request, timeout=PATIENCE)
    finally:
        os.close(folder)


WEB = api.PodResources(
    name="web", namespace="default", containers=[api.ContainerResources(name=one) for one in ("sidecar", "main")]
)


async def test_pods_that_go_on_are_listed(served: Path) -> None:
    """With sidecars, and without ended pods."""
    assert list((await ask(served, "List", api.ListPodResourcesRequest())).pod_resources) == [WEB]


async def test_one_pod_is_told(served: Path) -> None:
    """By name."""
    found = await ask(served, "Get", api.GetPodResourcesRequest(pod_name="web", pod_namespace="default"))
    assert found.pod_resources == WEB


async def test_an_unknown_pod_is_not_found(served: Path) -> None:
    """In the kubelet's words."""
    with pytest.raises(grpc.aio.AioRpcError, match="pod x in namespace default not found"):
        await ask(served, "Get", api.GetPodResourcesRequest(pod_name="x", pod_namespace="default"))


async def test_nothing_can_be_had_alone(served: Path) -> None:
    """No devices, no CPUs, no memory."""
    found = await ask(served, "GetAllocatableResources", api.AllocatableResourcesRequest())
    assert found == api.AllocatableResourcesResponse()


async def test_an_ended_pod_is_not_found_by_name(served: Path) -> None:
    """As by the kubelet, which lists it without the gate."""
    with pytest.raises(grpc.aio.AioRpcError, match="pod done in namespace default not found"):
        await ask(served, "Get", api.GetPodResourcesRequest(pod_name="done", pod_namespace="default"))


async def test_nothing_is_served_without_the_gate(tmp_path: Path) -> None:
    """KubeletPodResourcesGet has the kubelet serve the API at all."""
    config = SimpleNamespace(root_dir=tmp_path, feature_gates=FeatureGates({POD_RESOURCES_GATE: False}))
    serving_nothing = serve_pod_resources(cast("NodeDependencies", SimpleNamespace(config=config)))
    task = asyncio.create_task(serving_nothing)
    await asyncio.sleep(0)
    assert not task.done()
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    assert not (tmp_path / SOCKET).parent.exists()


async def test_all_pods_are_listed_without_the_gate(tmp_path: Path) -> None:
    """Also those that have ended."""
    for name, phase in (("web", "Running"), ("done", "Succeeded")):
        write_pod(tmp_path, name, phase)
    async with serving(tmp_path, feature_gates=FeatureGates({ACTIVE_PODS_GATE: False})):
        found = await ask(tmp_path, "List", api.ListPodResourcesRequest())
    assert {one.name for one in found.pod_resources} == {"web", "done"}


async def test_v1alpha1_lists_all_pods_without_sidecars(served: Path) -> None:
    """The kubelet's device tests use it."""
    found = await ask(served, "List", alpha.ListPodResourcesRequest(), alpha_grpc.PodResourcesListerStub)
    assert {(one.name, *(each.name for each in one.containers)) for one in found.pod_resources} == {
        ("web", "main"),
        ("done", "main"),
    }


async def test_exclusive_cpus_are_those_of_the_state_file(tmp_path: Path) -> None:
    """It is read at each request; the reserved CPU is not allocatable."""
    policy = static_policy(machine(cores=4, threads=1), Options(), 1)
    write_pod(tmp_path, "web")
    async with serving(tmp_path, cpu_manager=CpuManager(policy)):
        (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
        assert not any(one.cpu_ids for one in web.containers)
        given = Assignments(frozenset({0, 1}), {"web": {"main": frozenset({2, 3})}})
        (tmp_path / "cpu_manager_state").write_text(written_state("static", given))
        (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
        assert {one.name: list(one.cpu_ids) for one in web.containers} == {"sidecar": [], "main": [2, 3]}
        found = await ask(tmp_path, "GetAllocatableResources", api.AllocatableResourcesRequest())
    assert list(found.cpu_ids) == sorted(policy.allocatable)
    assert len(found.cpu_ids) == 3


def memory(nodes: tuple[int, ...], size: int, kind: str = "memory") -> api.ContainerMemory:
    """Build what the kubelet tells of a block."""
    topology = api.TopologyInfo(nodes=[api.NUMANode(ID=one) for one in nodes])
    return api.ContainerMemory(memory_type=kind, size=size, topology=topology)


GIB = 2**30
IDLE = idle_machine({0: NodeMemory(8 * GIB, {2**21: 512}), 1: NodeMemory(8 * GIB)}, {0: {"memory": GIB}})


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        pytest.param(None, [], id="no-file"),
        pytest.param("{broken", [], id="a-broken-file"),
        pytest.param("[" * 100_000, [], id="a-deep-file"),
        pytest.param(
            memory_state.written_state("Static", Memory(IDLE, {"web": {"main": (Block((0, 1), "memory", 9 * GIB),)}})),
            [memory((0, 1), 9 * GIB)],
            id="of-two-nodes",
        ),
        pytest.param(
            memory_state.written_state(
                "Static",
                Memory(IDLE, {"web": {"main": (Block((0,), "memory", GIB), Block((0,), "hugepages-2Mi", 2**22))}}),
            ),
            [memory((0,), GIB), memory((0,), 2**22, "hugepages-2Mi")],
            id="by-size-of-page",
        ),
        pytest.param(
            memory_state.written_state("Static", Memory(IDLE, {"other": {"main": (Block((0,), "memory", GIB),)}})),
            [],
            id="of-another-pod",
        ),
    ],
)
async def test_memory_is_that_of_the_state_file(
    tmp_path: Path, written: str | None, expected: list[api.ContainerMemory]
) -> None:
    """By List and Get, with its NUMA nodes."""
    write_pod(tmp_path, "web")
    if written is not None:
        (tmp_path / "memory_manager_state").write_text(written)
    async with serving(tmp_path, memory_manager=MemoryManager(IDLE)):
        (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
        request = api.GetPodResourcesRequest(pod_name="web", pod_namespace="default")
        assert (await ask(tmp_path, "Get", request)).pod_resources == web
    assert {one.name: list(one.memory) for one in web.containers} == {"sidecar": [], "main": expected}


async def test_memory_that_containers_may_have_is_told_by_node(tmp_path: Path) -> None:
    """Without what is reserved; whoever has some now does not matter."""
    async with serving(tmp_path, memory_manager=MemoryManager(IDLE)):
        found = await ask(tmp_path, "GetAllocatableResources", api.AllocatableResourcesRequest())
    assert sorted(found.memory, key=lambda one: (one.topology.nodes[0].ID, one.size)) == [
        memory((0,), GIB, "hugepages-2Mi"),
        memory((0,), 6 * GIB),
        memory((1,), 8 * GIB),
    ]


async def test_requests_are_counted(tmp_path: Path) -> None:
    """By version and method, as in the kubelet."""
    metrics = NodeMetrics()
    async with serving(tmp_path, metrics):
        await ask(tmp_path, "List", api.ListPodResourcesRequest())
        await ask(tmp_path, "List", alpha.ListPodResourcesRequest(), alpha_grpc.PodResourcesListerStub)
        with pytest.raises(grpc.aio.AioRpcError):
            await ask(tmp_path, "Get", api.GetPodResourcesRequest())
    text = metrics.render({})
    name = "kubelet_pod_resources_endpoint_"
    for series in (
        'requests_total{server_api_version="v1"} 2.0',
        'requests_total{server_api_version="v1alpha1"} 1.0',
        'requests_list{server_api_version="v1"} 1.0',
        'requests_get{server_api_version="v1"} 1.0',
        'errors_get{server_api_version="v1"} 1.0',
    ):
        assert f"{name}{series}" in text
    assert 'requests_list{server_api_version="v1alpha1"}' not in text


def test_the_rate_is_the_kubelets() -> None:
    """10 at once, then 100 a second."""
    now = [0.0]
    limit = RateLimit(lambda: now[0])
    assert [limit.allows() for _ in range(BURST + 2)] == [True] * BURST + [False] * 2
    now[0] = 1 / QPS
    assert [limit.allows(), limit.allows()] == [True, False]
    now[0] = 60.0
    assert sum(limit.allows() for _ in range(100)) == BURST


async def listed(root_dir: Path) -> list[api.PodResources]:
    """List the pods, as soon as the rate allows it."""
    async with asyncio.timeout(PATIENCE):
        while True:
            try:
                return list((await ask(root_dir, "List", api.ListPodResourcesRequest())).pod_resources)
            except grpc.aio.AioRpcError as error:
                if error.details() != "rejected by rate limit":
                    raise
            await asyncio.sleep(1 / QPS)


async def test_a_flood_is_refused_and_then_others_are_answered(served: Path) -> None:
    """In the kubelet's words."""
    asked = [ask(served, "List", api.ListPodResourcesRequest()) for _ in range(200)]
    answers = await asyncio.gather(*asked, return_exceptions=True)
    refused = [one for one in answers if isinstance(one, grpc.aio.AioRpcError)]
    assert refused
    assert {(one.code(), one.details()) for one in refused} == {
        (grpc.StatusCode.RESOURCE_EXHAUSTED, "rejected by rate limit")
    }
    assert await listed(served) == [WEB]


async def test_clients_that_hang_hold_up_nobody(tmp_path: Path) -> None:
    """They open requests, and send no message."""
    write_pod(tmp_path, "web")
    async with serving(tmp_path), grpc.aio.insecure_channel(f"unix:{tmp_path / SOCKET}") as channel:
        hanging = [channel.stream_unary("/v1.PodResourcesLister/List", None, None)(None) for _ in range(40)]
        for one in hanging:
            await one.wait_for_connection()
        assert await listed(tmp_path) == [WEB]
        assert sum(not one.done() for one in hanging) >= BURST
        for one in hanging:
            one.cancel()


async def test_a_large_message_is_refused(served: Path) -> None:
    """Before it is parsed."""
    large = api.GetPodResourcesRequest(pod_name="x" * (LARGEST_REQUEST + 1))
    with pytest.raises(grpc.aio.AioRpcError) as error:
        await ask(served, "Get", large)
    assert error.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    assert "larger than max" in str(error.value.details())


async def test_the_folder_is_closed_to_others(served: Path) -> None:
    """As the kubelet's is."""
    assert stat.S_IMODE((served / SOCKET).parent.stat().st_mode) == 0o750


GPU = "example.com/gpu"


def device(name: str, node: int | None = None) -> api.ContainerDevices:
    """Build a device."""
    topology = None if node is None else api.TopologyInfo(nodes=[api.NUMANode(ID=node)])
    return api.ContainerDevices(resource_name=GPU, device_ids=[name], topology=topology)


def write_devices(root_dir: Path, **given: Mapping[int, tuple[str, ...]]) -> None:
    """Write the checkpoint, with devices of each pod's main container."""
    assigned = DevicesAssigned({uid: {"main": {GPU: Assigned(devices)}} for uid, devices in given.items()})
    file = root_dir / DEVICES_FILE
    file.parent.mkdir(exist_ok=True)
    file.write_text(written_checkpoint(Checkpoint(assigned, {GPU: ["a"]})))


async def test_devices_are_those_of_the_checkpoint(tmp_path: Path) -> None:
    """One that is near to two NUMA nodes is there for each; v1alpha1 has names alone; healthy ones are allocatable."""
    write_pod(tmp_path, "web")
    write_devices(tmp_path, web={-1: ("d10", "d9"), 0: ("a",), 1: ("a", "b")}, done={0: ("c",)})
    write_healthy_devices(tmp_path, {GPU: {"a": (0, 1), "d9": ()}})
    async with serving(tmp_path):
        (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
        assert list(web.containers[1].devices) == [
            device("a", 0), device("a", 1), device("b", 1), device("d9"), device("d10"),
        ]  # fmt: skip
        assert not web.containers[0].devices
        found = await ask(tmp_path, "List", alpha.ListPodResourcesRequest(), alpha_grpc.PodResourcesListerStub)
        assert [one.device_ids for one in found.pod_resources[0].containers[0].devices] == [
            ["a"], ["a"], ["b"], ["d9"], ["d10"],
        ]  # fmt: skip
        allocatable = await ask(tmp_path, "GetAllocatableResources", api.AllocatableResourcesRequest())
        assert list(allocatable.devices) == [device("a", 0), device("a", 1), device("d9")]
        write_devices(tmp_path, web={0: ("z",)})
        write_healthy_devices(tmp_path, {})
        found = await ask(tmp_path, "Get", api.GetPodResourcesRequest(pod_name="web", pod_namespace="default"))
        assert list(found.pod_resources.containers[1].devices) == [device("z", 0)]
        assert not (await ask(tmp_path, "GetAllocatableResources", api.AllocatableResourcesRequest())).devices


UNANSWERED = {"web": {"main": {GPU: {-1: ("d10",), 0: ("a",), 1: ("a",)}}}, "gone": {"main": {GPU: {0: ("c",)}}}}


@pytest.mark.parametrize(
    ("unanswered", "answered", "told"),
    [
        pytest.param(UNANSWERED, {}, [device("a", 0), device("a", 1), device("d10")], id="the-checkpoint-is-lost"),
        pytest.param(UNANSWERED, {"web": {0: ("z",)}}, [device("z", 0)], id="the-plugin-has-answered-again"),
        pytest.param({}, {"web": {0: ("z",)}}, [device("z", 0)], id="nothing-is-lost"),
        pytest.param({"web": {"other": {GPU: {0: ("a",)}}}}, {}, [], id="another-container-has-it"),
    ],
)
async def test_devices_whose_plugin_has_not_answered_again(
    tmp_path: Path,
    unanswered: UnansweredDevices,
    answered: dict[str, dict[int, tuple[str, ...]]],
    told: list[api.ContainerDevices],
) -> None:
    """They are told with their NUMA nodes, in both versions of the API; what the checkpoint says counts more."""
    write_pod(tmp_path, "web")
    async with serving(tmp_path):
        assert list((await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources) == [WEB]
        write_unanswered_devices(tmp_path, unanswered)
        write_devices(tmp_path, **answered)
        for _ in range(2):
            (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
            assert list(web.containers[1].devices) == told
        found = await ask(tmp_path, "Get", api.GetPodResourcesRequest(pod_name="web", pod_namespace="default"))
        assert found.pod_resources == web
        alphas = await ask(tmp_path, "List", alpha.ListPodResourcesRequest(), alpha_grpc.PodResourcesListerStub)
        named = [list(one.device_ids) for one in alphas.pod_resources[0].containers[0].devices]
        assert named == [list(one.device_ids) for one in told]
        write_unanswered_devices(tmp_path, {})
        write_devices(tmp_path)
        assert list((await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources) == [WEB]


@pytest.mark.parametrize("text", ["", "{", "[]", '{"Data":{},"Checksum":1}', "\x00"])
async def test_damaged_files_of_devices_stop_nothing(tmp_path: Path, text: str) -> None:
    """As if there were none."""
    write_pod(tmp_path, "web")
    for file in (tmp_path / DEVICES_FILE, healthy_devices_path(tmp_path), unanswered_devices_path(tmp_path)):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    async with serving(tmp_path):
        assert list((await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources) == [WEB]
        found = await ask(tmp_path, "GetAllocatableResources", api.AllocatableResourcesRequest())
        assert found == api.AllocatableResourcesResponse()


DRIVER = "gpu.example.com"
PREPARED = ClaimAccount(
    claim=Claim("default", "web-gpu-x", "uid-claim"),
    pods=frozenset({"web"}),
    drivers={
        DRIVER: (
            PreparedDevice(pool="node", device="gpu-0", requests=("r",), cdi_device_ids=("example.com/gpu=0", "e/f=1")),
            PreparedDevice(pool="node", device="gpu-1", share_id="share"),
        )
    },
)
TOLD = api.DynamicResource(
    claim_name="web-gpu-x",
    claim_namespace="default",
    claim_resources=[
        api.ClaimResource(
            cdi_devices=[api.CDIDevice(name="example.com/gpu=0"), api.CDIDevice(name="e/f=1")],
            driver_name=DRIVER,
            pool_name="node",
            device_name="gpu-0",
        ),
        api.ClaimResource(driver_name=DRIVER, pool_name="node", device_name="gpu-1", share_id="share"),
    ],
)
USING = {
    "initContainers": [{"name": "sidecar", "restartPolicy": "Always"}],
    "containers": [{"name": "main", "resources": {"claims": [{"name": "gpu", "request": "other"}]}}],
    "resourceClaims": [{"name": "gpu", "resourceClaimTemplateName": "gpu"}],
}
MADE = {"resourceClaimStatuses": [{"name": "gpu", "resourceClaimName": "web-gpu-x"}]}
PREPARED_FILE = written_claims({PREPARED.key: PREPARED})
ANOTHERS = ClaimAccount(claim=Claim("other", "web-gpu-x", "uid-other"), drivers=PREPARED.drivers)


@pytest.mark.parametrize(
    ("status", "written", "expected"),
    [
        pytest.param(MADE, PREPARED_FILE, [TOLD], id="all-devices-of-the-claim"),
        pytest.param({}, PREPARED_FILE, [], id="a-claim-that-is-not-made-yet"),
        pytest.param(MADE, None, [], id="no-file"),
        pytest.param(MADE, "{broken", [], id="a-broken-file"),
        pytest.param(MADE, written_claims({ANOTHERS.key: ANOTHERS}), [], id="of-another-namespace"),
    ],
)
async def test_claims_are_those_of_the_state_file(
    tmp_path: Path, status: Any, written: str | None, expected: list[api.DynamicResource]
) -> None:
    """By List and Get, for the containers that use them; v1alpha1 and GetAllocatableResources have none."""
    write_pod(tmp_path, "web", spec=USING, status=status)
    if written is not None:
        (tmp_path / CLAIMS_FILE).write_text(written)
    async with serving(tmp_path):
        (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
        request = api.GetPodResourcesRequest(pod_name="web", pod_namespace="default")
        assert (await ask(tmp_path, "Get", request)).pod_resources == web
        found = await ask(tmp_path, "GetAllocatableResources", api.AllocatableResourcesRequest())
        assert found == api.AllocatableResourcesResponse()
    assert {one.name: list(one.dynamic_resources) for one in web.containers} == {"sidecar": [], "main": expected}


async def test_a_claim_that_is_undone_is_told_no_more(tmp_path: Path) -> None:
    """The file is read again when it has changed."""
    write_pod(tmp_path, "web", spec=USING, status=MADE)
    (tmp_path / CLAIMS_FILE).write_text(PREPARED_FILE)
    async with serving(tmp_path):
        for written, expected in ((None, [TOLD]), (written_claims({}), []), (PREPARED_FILE, [TOLD])):
            if written:
                (tmp_path / CLAIMS_FILE).write_text(written)
            (web,) = (await ask(tmp_path, "List", api.ListPodResourcesRequest())).pod_resources
            assert list(web.containers[1].dynamic_resources) == expected
