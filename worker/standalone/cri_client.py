"""A blocking CRI client for `up`, `down` and test fixtures; no pod logic.

Blocking on purpose: its callers are sequential programs without an event loop. The worker has its own client in
`activities/clients`.
"""

import json
import time
from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final

import grpc

from activities.machine.cgroup_names import CgroupDriver
from proto.cri.labels import POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.cri.v1 import api_pb2_grpc as cri_grpc
from worker.settings.cgroups.driver import runtime_setting
from worker.settings.user_namespaces import missing_user_namespaces

BETWEEN_TRIES: Final = 0.02
AT_ONCE: Final = 4
POD_DEADLINE: Final = timedelta(seconds=60)
MAX_MESSAGE: Final = 16 * 1024 * 1024  # as in the kubelet's CRI client


_WHAT_NOW: Final = (
    "start containerd (1.7 or newer) with its CRI plugin, or name its socket with --container-runtime-endpoint"
)
_PLUGIN_IS_OFF: Final = "CRI is off in it: take cri out of disabled_plugins in its configuration, and restart it"
"""As in the configuration that comes with Docker's containerd."""


class RuntimeNotReady(Exception):
    """A container runtime did not become ready in time; the message has its last answer."""


def given_runtime(endpoint: str, within: timedelta) -> str:
    """Return name and version of the operator's own runtime; raises RuntimeNotReady with what to do."""
    path = Path(endpoint.removeprefix("unix://"))
    if not path.is_socket():
        raise RuntimeNotReady(f"no container runtime at {endpoint}: there is no such socket; {_WHAT_NOW}")
    try:
        with CriClient(path) as runtime:
            return runtime.wait_until_ready(within)
    except RuntimeNotReady as error:
        what_now = _PLUGIN_IS_OFF if grpc.StatusCode.UNIMPLEMENTED.name in str(error) else _WHAT_NOW
        raise RuntimeNotReady(
            f"the container runtime at {endpoint} does not answer on CRI: {error}; {what_now}"
        ) from error


def without_user_namespaces(endpoint: str) -> str:
    """Say that no pod can have user namespaces with a runtime; empty if one can, or if there is no answer: the worker asks, too."""
    try:
        with CriClient(Path(endpoint.removeprefix("unix://"))) as runtime:
            handlers = runtime.runtime.Status(cri.StatusRequest(), timeout=5).runtime_handlers
    except grpc.RpcError:
        return ""
    return missing_user_namespaces({one.name: one.features.user_namespaces for one in handlers})


@dataclass(slots=True)
class CriClient:
    """A blocking CRI client on one socket; close it, or use it in a `with`."""

    socket: Path
    channel: Any = field(init=False)
    runtime: Any = field(init=False)
    images: Any = field(init=False)

    def __post_init__(self) -> None:
        options = [
            ("grpc.max_receive_message_length", MAX_MESSAGE),
            ("grpc.enable_http_proxy", 0),
            ("grpc.initial_reconnect_backoff_ms", 20),  # a socket that does not exist yet appears within milliseconds
            ("grpc.max_reconnect_backoff_ms", 200),
        ]
        self.channel = grpc.insecure_channel(f"unix://{self.socket}", options=options)
        self.runtime = cri_grpc.RuntimeServiceStub(self.channel)
        self.images = cri_grpc.ImageServiceStub(self.channel)

    def __enter__(self) -> "CriClient":
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def wait_until_ready(self, within: timedelta) -> str:
        """Wait until the runtime reports RuntimeReady; returns its name and version.

        Raises RuntimeNotReady with the last answer after `within`.
        """
        until = time.monotonic() + within.total_seconds()
        while True:
            try:
                status = self.runtime.Status(cri.StatusRequest(), timeout=2).status
                waits = [c for c in status.conditions if c.type == "RuntimeReady" and not c.status]
                answer = waits[0].message if waits else ""
                if not waits:
                    version = self.runtime.Version(cri.VersionRequest(), timeout=2)
                    return f"{version.runtime_name} {version.runtime_version}"
            except grpc.RpcError as error:
                answer = _words(error)
            if time.monotonic() > until:
                raise RuntimeNotReady(f"{self.socket} is not ready after {within.total_seconds():.0f} s: {answer}")
            time.sleep(BETWEEN_TRIES)

    def network_problem(self) -> str:
        """Return why the pod network is not ready; empty if it is."""
        status = self.runtime.Status(cri.StatusRequest(), timeout=5).status
        return next((c.message for c in status.conditions if c.type == "NetworkReady" and not c.status), "")

    def cgroup_driver(self) -> CgroupDriver:
        """Return the cgroup driver that the runtime's configuration shows; cgroupfs, the default, if it shows none."""
        try:
            info = self.runtime.Status(cri.StatusRequest(verbose=True), timeout=5).info
        except grpc.RpcError:  # the worker says so, which asks the runtime itself
            return CgroupDriver.CGROUPFS
        found = runtime_setting(info)
        return found.driver if found else CgroupDriver.CGROUPFS

    def has_image(self, name: str) -> bool:
        """Report whether the runtime has an image of that name."""
        request = cri.ImageStatusRequest(image=cri.ImageSpec(image=name))
        return bool(self.images.ImageStatus(request, timeout=10).image.id)

    def wait_for_images(self, names: list[str], within: timedelta) -> None:
        """Wait until the runtime has all of these images; raises RuntimeNotReady naming the missing ones."""
        until = time.monotonic() + within.total_seconds()
        while missing := [name for name in names if not self.has_image(name)]:
            if time.monotonic() > until:
                raise RuntimeNotReady(f"{self.socket} does not know {', '.join(missing)}")
            time.sleep(BETWEEN_TRIES)

    def sandboxes(self) -> list[Any]:
        """List every sandbox of the runtime."""
        return list(self.runtime.ListPodSandbox(cri.ListPodSandboxRequest(), timeout=10).items)

    def sandboxes_of(self, uids: Collection[str]) -> list[str]:
        """Return the ids of the sandboxes of these pods."""
        return [one.id for one in self.sandboxes() if one.labels.get(POD_UID) in uids]

    def running_containers(self) -> list[Any]:
        """List every container that runs."""
        state = cri.ContainerStateValue(state=cri.ContainerState.CONTAINER_RUNNING)
        request = cri.ListContainersRequest(filter=cri.ContainerFilter(state=state))
        return list(self.runtime.ListContainers(request, timeout=10).containers)

    def container(self, container_id: str) -> tuple[int, int | None]:
        """Return a container's pid, 0 if the runtime does not tell, and its exit code, None if it runs; raises RpcError."""
        request = cri.ContainerStatusRequest(container_id=container_id, verbose=True)
        answer = self.runtime.ContainerStatus(request, timeout=10)
        runs = answer.status.state == cri.ContainerState.CONTAINER_RUNNING
        try:
            pid = int(json.loads(answer.info["info"])["pid"])
        except (KeyError, ValueError, TypeError):
            pid = 0
        return pid, None if runs else answer.status.exit_code

    def answers(self) -> bool:
        """Report whether a runtime answers on the socket."""
        try:
            self.sandboxes()
        except grpc.RpcError:
            return False
        return True

    def remove_sandboxes(self, ids: list[str]) -> dict[str, str]:
        """Stop and remove sandboxes with their containers, without grace; returns errors by id."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return {sandbox: error for sandbox, error in zip(ids, pool.map(self._remove, ids), strict=True) if error}

    def _remove(self, sandbox_id: str) -> str:
        seconds = POD_DEADLINE.total_seconds()
        try:
            self.runtime.StopPodSandbox(cri.StopPodSandboxRequest(pod_sandbox_id=sandbox_id), timeout=seconds)
            self.runtime.RemovePodSandbox(cri.RemovePodSandboxRequest(pod_sandbox_id=sandbox_id), timeout=seconds)
        except grpc.RpcError as error:
            return _words(error)
        return ""


def _words(error: grpc.RpcError) -> str:
    return f"{error.code().name}: {error.details()}" if isinstance(error, grpc.Call) else str(error)
