"""A whole node under test: worker and poller as processes, on the session's containerd and Temporal.

Each node has its own name, root and manifest folder, so many can run beside each other. Tests wait for what happens in other
processes, so the waits here poll every few milliseconds until a deadline.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Self

from temporalio.client import Client, WorkflowHandle

from proto.pod_snapshot import PodSnapshot, read_snapshots
from proto.temporal.names import NAMESPACE, PodWorkflowId
from tests import patience
from tests.node.forked_service import ForkedService
from tests.waiting import wait_until
from worker.standalone.containerd import Containerd
from worker.standalone.machine import leftovers as remains
from worker.standalone.temporal_server import TemporalServer
from worker.temporal.temporal_client import TemporalSettings, connect

BUSYBOX: Final = "docker.io/library/busybox:1.37"
PATIENCE: Final = patience.PATIENCE
COMPARES_EVERY: Final = "10m"
"""More than `PATIENCE`: what a test waits for must come from an event, not from the regular resync."""
STARTS_WITHIN: Final = 240.0
ROOT: Final = Path(__file__).parents[2]
RELEASE: Final = "worker.cli"
Service = subprocess.Popen[bytes] | ForkedService
"""A process of a node."""


def pod_manifest(name: str, command: str = "sleep 3600", **spec: Any) -> dict[str, Any]:
    """Build a manifest with one busybox container, which mounts each volume at `/<its name>`."""
    container: dict[str, Any] = {"name": "main", "image": BUSYBOX, "command": ["sh", "-c", command]}
    if volumes := spec.get("volumes"):
        container["volumeMounts"] = [{"name": one["name"], "mountPath": f"/{one['name']}"} for one in volumes]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name},
        "spec": {"terminationGracePeriodSeconds": 1, "containers": [container], **spec},
    }


@dataclass
class TempoletNode:
    """Worker and poller of one node; a context manager that starts both and leaves nothing behind."""

    roles: ClassVar[tuple[str, ...]] = ("worker", "poller")
    directory: Path
    containerd: Containerd
    temporal: TemporalServer
    name: str = field(default_factory=lambda: f"n{uuid.uuid4().hex[:6]}")
    keys: dict[str, Any] = field(default_factory=dict)
    """More keys of KubeletConfiguration."""
    own_keys: dict[str, Any] = field(default_factory=dict)
    """More keys of TempoletConfiguration."""
    away_after: str = "10m"
    """How long Temporal may be silent before the node leads its pods itself: a busy machine is no outage."""
    flags: list[str] = field(default_factory=list)
    """More flags of worker and poller."""
    release: str = RELEASE
    """The module that is started as worker and poller: this release, or one that a test plays."""
    environment: dict[str, str] = field(default_factory=dict)
    """More variables of worker and poller."""
    as_programs: bool = False
    """Whether the processes are started as by systemd, and not forked: for tests of what /proc shows of them, or of their memory."""
    processes: dict[str, Service] = field(default_factory=dict)

    @property
    def root_dir(self) -> Path:
        """The value of --root-dir."""
        return self.directory / "kubelet"

    @property
    def manifests(self) -> Path:
        """The value of staticPodPath."""
        return self.directory / "manifests"

    @property
    def objects(self) -> Path:
        """The folder of its pods' ConfigMaps, Secrets and other objects, beside the manifests."""
        return self.directory / "objects"

    @property
    def logs(self) -> Path:
        """The value of podLogsDir."""
        return self.directory / "logs"

    def __enter__(self) -> Self:
        self.manifests.mkdir(parents=True)
        self.objects.mkdir(mode=0o700)  # as `tempolet up` does: a missing folder is looked for only every 10 s
        self.write_configuration()
        try:
            self.start_all()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.ExitStack() as at_last:
            # mounts that a failed test has left: deleting its folders would delete through them
            at_last.callback(remains.unmount_below, self.directory)
            for role in self.roles:
                at_last.callback(self.stop, role)
            self.remove_all()

    def write_configuration(self) -> None:
        """Write both configuration files."""
        kubelet = {
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            "staticPodPath": str(self.manifests),
            "podLogsDir": str(self.logs),
            "cgroupRoot": self.containerd.cgroup,
            "cgroupDriver": "cgroupfs",
            "failCgroupV1": False,
            "containerRuntimeEndpoint": self.containerd.endpoint,
            "healthzPort": 0,
            "syncFrequency": COMPARES_EVERY,
            "evictionHard": {},  # how full the machine of the tests is decides about no pod
            **self.keys,
        }
        own = {
            "apiVersion": "tempolet.dev/v1alpha1",
            "kind": "TempoletConfiguration",
            "temporal": {
                "address": self.temporal.address,
                "namespace": NAMESPACE,
                "awayAfter": self.away_after,
            },
            "logs": {"legacyContainerLogsDir": str(self.directory / "containers")},
            **self.own_keys,
        }
        (self.directory / "kubelet.json").write_text(json.dumps(kubelet))
        (self.directory / "tempolet.json").write_text(json.dumps(own))

    def start(self, role: str) -> Service:
        """Start one of the processes; its log is `<role>.log`."""
        arguments = ["--config", self.directory / "kubelet.json", "--tempolet-config", self.directory / "tempolet.json"]
        arguments += ["--root-dir", self.root_dir, "--hostname-override", self.name, *self.flags]
        words = [role, *map(str, arguments)]
        environment = {key: value for key, value in os.environ.items() if not key.startswith("TEMPORAL_")}
        environment |= self.environment
        with (self.directory / f"{role}.log").open("ab") as log:
            if self.as_programs or self.release != RELEASE or self.environment:
                command = [sys.executable, "-m", self.release, *words]
                self.processes[role] = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT, env=environment)
            else:
                self.processes[role] = ForkedService(words, ROOT, environment, log)
        return self.processes[role]

    def start_all(self) -> None:
        """Start the processes that do not run."""
        for role in self.roles:
            if role not in self.processes or self.processes[role].poll() is not None:
                self.start(role)

    def until_started(self) -> None:
        """Wait until the worker has started, however long a busy machine takes."""
        self.until(lambda: "worker started" in self.log("worker"), "the worker started", STARTS_WITHIN)

    def stop(self, role: str, sign: signal.Signals = signal.SIGTERM) -> int:
        """Stop a process with a signal; returns its exit code."""
        process = self.processes.pop(role, None)
        if process is None:
            return 0
        process.send_signal(sign)
        try:
            return process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise

    def log(self, role: str) -> str:
        """Read the log of a process."""
        return (self.directory / f"{role}.log").read_text()

    def apply(self, manifest: dict[str, Any], file: str = "") -> None:
        """Write a manifest atomically into the folder, as a careful operator does."""
        path = self.manifests / (file or f"{manifest['metadata']['name']}.json")
        new = path.with_name(f".{path.name}")
        new.write_text(json.dumps(manifest))
        new.replace(path)

    def remove(self, name: str) -> None:
        """Remove a manifest."""
        (self.manifests / f"{name}.json").unlink()

    def remove_all(self, but: Collection[str] = ()) -> None:
        """Remove every manifest and wait until the pods are gone, except those named as in `known`."""
        for path in self.manifests.iterdir():
            if str(path) in but:
                continue
            if path.is_dir():
                path.rmdir()
            else:
                path.unlink()
        if not {"worker", "poller"} <= self.processes.keys():
            return
        self.until(lambda: self.known().issubset(but), "every pod gone")

    def known(self) -> frozenset[str]:
        """Return the pods that the node knows, by the path of their manifest or by their UID."""
        return frozenset(one.path or one.uid for one in self.snapshots())

    def restore(self, but: Collection[str]) -> None:
        """Start the processes that do not run, and remove every other pod; raises TimeoutError."""
        self.start_all()
        self.remove_all(but)

    def snapshots(self) -> list[PodSnapshot]:
        """Read every pod's snapshot in the node's cache."""
        return read_snapshots(self.root_dir)

    def pod(self, name: str) -> PodSnapshot | None:
        """Return a pod's snapshot by its manifest's name; the newest if there are two."""
        found = [one for one in self.snapshots() if one.name == f"{name}-{self.name}"]
        return max(found, key=lambda one: one.started_at, default=None)

    def until(self, holds: Callable[[], Any], what: str | Callable[[], str], patience: float = PATIENCE) -> Any:
        """Wait until something holds; raises TimeoutError with its name and the ends of the logs."""

        def told() -> str:
            logs = "\n".join(f"--- {role}\n{self.log(role)[-3000:]}" for role in self.roles)
            shown = "\n".join(
                f"{one.name} {one.lifecycle} {one.phase} {one.reason} {one.message}" for one in self.snapshots()
            )
            return f"{what if isinstance(what, str) else what()}\n{shown}\n{logs}"

        return wait_until(holds, told, patience)

    def until_pod(self, name: str, holds: Callable[[PodSnapshot], Any], what: str = "") -> PodSnapshot:
        """Wait until a pod's snapshot satisfies a condition; returns the snapshot."""

        def now() -> PodSnapshot | None:
            snapshot = self.pod(name)
            return snapshot if snapshot is not None and holds(snapshot) else None

        snapshot: PodSnapshot = self.until(now, what or f"{name} as asked")
        return snapshot

    def until_running(self, name: str) -> PodSnapshot:
        """Wait until a pod is running and ready."""
        return self.until_pod(name, lambda one: one.phase == "Running" and one.ready, f"{name} running")

    def until_gone(self, *names: str, patience: float = PATIENCE) -> None:
        """Wait until nothing is left of the pods."""
        self.until(lambda: all(self.pod(name) is None for name in names), f"{', '.join(names)} gone", patience)

    def take_away(self, *names: str, patience: float = PATIENCE) -> None:
        """Remove manifests, and wait until nothing is left of their pods."""
        for name in names:
            self.remove(name)
        self.until_gone(*names, patience=patience)

    def temporal_settings(self) -> TemporalSettings:
        """Return settings for this node's Temporal with this node's keys."""
        return TemporalSettings(
            key_file=self.root_dir / "tempolet" / "payload.keys",
            address=self.temporal.address,
            environment={},
        )

    async def client(self) -> Client:
        """Connect as the node's own processes do."""
        return await connect(self.temporal_settings())

    async def workflow(self, snapshot: PodSnapshot) -> WorkflowHandle[Any, Any]:
        """Return a handle to a pod's workflow."""
        workflow_id = PodWorkflowId(self.name, snapshot.namespace, snapshot.name, snapshot.uid)
        return (await self.client()).get_workflow_handle(str(workflow_id))


@contextlib.contextmanager
def tempolet_node(
    directory: Path, containerd: Containerd, temporal: TemporalServer, **more: Any
) -> Iterator[TempoletNode]:
    """Run a node for one test."""
    with TempoletNode(directory, containerd, temporal, **more) as node:
        node.until_started()
        yield node


def wait(coroutine: Any) -> Any:
    """Run one coroutine from a synchronous test."""
    return asyncio.run(coroutine)
