"""containerd's own view of pods, read without tempolet; and a lock that makes its network plugin hang."""

import fcntl
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc
from worker.standalone.containerd import Containerd

POD_UID = "io.kubernetes.pod.uid"


def _runtime(containerd: Containerd) -> tuple[grpc.Channel, Any]:
    channel = grpc.insecure_channel(containerd.endpoint, options=[("grpc.max_receive_message_length", 16 << 20)])
    return channel, api_pb2_grpc.RuntimeServiceStub(channel)


def containers_of(containerd: Containerd, pod_uid: str) -> list[cri.Container]:
    """List a pod's containers, or all if the uid is empty."""
    channel, runtime = _runtime(containerd)
    with channel:
        asked = cri.ContainerFilter(label_selector={POD_UID: pod_uid} if pod_uid else {})
        return list(runtime.ListContainers(cri.ListContainersRequest(filter=asked)).containers)


def sandboxes_of(containerd: Containerd, pod_uid: str) -> list[tuple[str, bool]]:
    """List a pod's sandboxes, or all if the uid is empty: id, and whether it is ready."""
    channel, runtime = _runtime(containerd)
    with channel:
        asked = cri.PodSandboxFilter(label_selector={POD_UID: pod_uid} if pod_uid else {})
        items = runtime.ListPodSandbox(cri.ListPodSandboxRequest(filter=asked)).items
        return [(one.id, one.state == cri.PodSandboxState.SANDBOX_READY) for one in items]


def container_pid(containerd: Containerd, container_id: str) -> int:
    """Return the PID of a container, or of a sandbox's pause container."""
    return int(_information(containerd, container_id)["pid"])


def runtime_spec(containerd: Containerd, container_id: str) -> dict[str, Any]:
    """Return what runc was told of a container, or of a sandbox's pause container."""
    found: dict[str, Any] = _information(containerd, container_id)["runtimeSpec"]
    return found


def _information(containerd: Containerd, container_id: str) -> dict[str, Any]:
    channel, runtime = _runtime(containerd)
    with channel:
        try:
            answer = runtime.ContainerStatus(cri.ContainerStatusRequest(container_id=container_id, verbose=True))
        except grpc.RpcError:
            answer = runtime.PodSandboxStatus(cri.PodSandboxStatusRequest(pod_sandbox_id=container_id, verbose=True))
        found: dict[str, Any] = json.loads(answer.info["info"])
        return found


@contextmanager
def no_addresses(containerd: Containerd) -> Iterator[None]:
    """Make the network plugin hang: hold the lock under which it allocates addresses."""
    folder: Path = containerd.places.addresses / containerd.network.bridge
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("a") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
