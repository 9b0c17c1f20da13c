"""Does the PodResources API answer what its clients expect, over its socket: pods with containers, without devices?"""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import grpc
import grpc.aio
import pytest

from proto.pod_snapshot import PodSnapshot, pod_path, snapshot_path
from proto.podresources.v1 import api_pb2 as api
from proto.podresources.v1 import api_pb2_grpc
from worker.node.pod_resources import SOCKET, serve_pod_resources
from worker.node.process.dependencies import NodeDependencies


def write_pod(root_dir: Path, name: str, phase: str = "Running") -> None:
    """Write a pod where the worker does."""
    snapshot = PodSnapshot(f"pod/n/default/{name}/{name}", "n", "default", name, name, "api", "", "sync", phase)
    always = {"name": "sidecar", "restartPolicy": "Always"}
    spec = {"initContainers": [{"name": "first"}, always], "containers": [{"name": "main"}]}
    pod = {"metadata": {"name": name, "namespace": "default", "uid": name}, "spec": spec}
    snapshot_path(root_dir, name).parent.mkdir(parents=True)
    snapshot_path(root_dir, name).write_bytes(snapshot.to_json())
    pod_path(root_dir, name).write_text(json.dumps(pod))


@pytest.fixture(params=[pytest.param("", id="short-path"), pytest.param("d" * 150, id="long-path")])
async def served(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Path]:
    """Serve two pods, one of which has ended; yields the root directory."""
    root_dir = tmp_path / request.param
    write_pod(root_dir, "web")
    write_pod(root_dir, "done", "Succeeded")
    around = cast("NodeDependencies", SimpleNamespace(config=SimpleNamespace(root_dir=root_dir)))
    serving = asyncio.create_task(serve_pod_resources(around))
    while not (root_dir / SOCKET).exists():
        await asyncio.sleep(0.01)
        assert not serving.done()
    yield root_dir
    serving.cancel()
    with suppress(asyncio.CancelledError):
        await serving
    assert not (root_dir / SOCKET).exists()


async def ask(root_dir: Path, method: str, request: Any) -> Any:
    """Make one call as an agent does; a long path through its folder's descriptor."""
    folder = os.open(root_dir / SOCKET.parent, os.O_PATH)
    try:
        async with grpc.aio.insecure_channel(f"unix:/proc/self/fd/{folder}/{SOCKET.name}") as channel:
            stub = api_pb2_grpc.PodResourcesListerStub(channel)
            return await getattr(stub, method)(request, timeout=20)
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
