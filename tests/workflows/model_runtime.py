"""A runtime in memory behind the real activity names; it remembers what a CRI runtime would, and nothing else.

Tests control it (a container exits, a sandbox dies, a call fails) and check what the workflow does. It asserts by itself that a
pod never has two live sandboxes, and a container never two live instances.
"""

import asyncio
import itertools
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from temporalio import activity
from temporalio.common import RawValue
from temporalio.exceptions import ApplicationError

from proto.kubernetes.container_hash import container_hash
from proto.kubernetes.resources.node_resources import NodeResources
from proto.kubernetes.resources.resources import container_resources
from proto.temporal import names
from proto.temporal.activities.claims import ClaimedDevice, PreparedResources, PrepareResources, UnprepareResources
from proto.temporal.activities.requests import (
    AwaitPredecessor,
    DeletePodObject,
    ImagesPresent,
    MakePodDirectories,
    PodRuntime,
    PodSandbox,
    ProbeContainer,
    PulledImage,
    PullImage,
    ReadImages,
    ReadPodRuntime,
    RemoveContainer,
    RemovePodDirectories,
    RemovePodSandbox,
    RunHook,
    RunPodSandbox,
    RuntimeContainer,
    ShortenStop,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from proto.temporal.activities.resize import UpdateContainerResources
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes, UnmountVolumes
from proto.temporal.hooks import HookEnded
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import ContainerState, Sandbox
from proto.temporal.resources import RuntimeResources
from workflows.decide.actions import ACTIONS
from workflows.decide.contents import shown_objects


@dataclass
class ModelRuntime:
    """The state of the runtime, and the next failures of each call."""

    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, RuntimeContainer] = field(default_factory=dict)
    directories: set[str] = field(default_factory=set)
    prepared: set[str] = field(default_factory=set)
    """The uids of pods whose claims are prepared."""
    mounted: set[str] = field(default_factory=set)
    """The uids of pods whose volumes are mounted."""
    objects: dict[str, str] = field(default_factory=dict)
    """The versions of the objects that volumes may show, by `<plural>/<name>`."""
    images: set[str] = field(default_factory=set)
    """Those that are on the node."""
    exits_at_once: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """By container: exit codes that its next instances end with as soon as they are started."""
    hooks_fail: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    """By container: how its next hooks fail."""
    failing: dict[str, list[ApplicationError]] = field(default_factory=lambda: defaultdict(list))
    """By activity: errors that its next calls raise."""
    held: dict[str, asyncio.Event] = field(default_factory=dict)
    """By activity: calls wait for this event."""
    calls: list[tuple[str, Any]] = field(default_factory=list)
    predecessors: set[str] = field(default_factory=set)
    ended: dict[str, asyncio.Event] = field(default_factory=lambda: defaultdict(asyncio.Event))
    """By container id: set when it has ended, which ends its probing."""
    ids: Callable[[], int] = field(default_factory=lambda: itertools.count(1).__next__)
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    def activities(self) -> list[Callable[..., Any]]:
        """Every activity that PodWorkflow calls."""
        return [
            self.make_pod_directories,
            self.remove_pod_directories,
            self.delete_pod_object,
            self.await_predecessor,
            self.run_pod_sandbox,
            self.stop_pod_sandbox,
            self.remove_pod_sandbox,
            self.mount_volumes,
            self.unmount_volumes,
            self.prepare_resources,
            self.unprepare_resources,
            self.read_images,
            self.pull_image,
            self.start_container,
            self.run_hook,
            self.stop_container,
            self.shorten_stop,
            self.probe_container,
            self.remove_container,
            self.read_pod_runtime,
            self.update_container_resources,
            self.any_other,
        ]

    def named(self, name: str) -> list[Any]:
        """The requests of one activity, in order."""
        return [request for called, request in self.calls if called == name]

    def live(self) -> dict[str, RuntimeContainer]:
        """The running containers, by name."""
        return {one.name: one for one in self.containers.values() if one.state is ContainerState.RUNNING}

    def end(self, container_id: str, exit_code: int, reason: str = "") -> None:
        """Let a container exit by itself."""
        self.containers[container_id] = replace(
            self.containers[container_id],
            state=ContainerState.EXITED,
            exit_code=exit_code,
            reason=reason or ("Completed" if exit_code == 0 else "Error"),
            finished_at=datetime.now(UTC),
        )
        self.ended[container_id].set()

    async def _called(self, name: str, request: Any) -> None:
        self.calls.append((name, request))
        self.changed.set()
        if name in self.held:
            await self.held[name].wait()
        if self.failing[name]:
            raise self.failing[name].pop(0)

    @activity.defn(dynamic=True)
    async def any_other(self, asked: Sequence[RawValue]) -> None:
        """Carry out an action that has no result and does not concern the model."""
        name = activity.info().activity_type
        kinds = {row.name: kind for kind, row in ACTIONS.items() if row.result is None}
        await self._called(name, activity.payload_converter().from_payload(asked[0].payload, kinds[name]))

    @activity.defn(name=names.MAKE_POD_DIRECTORIES)
    async def make_pod_directories(self, request: MakePodDirectories) -> None:
        """Record that they exist."""
        await self._called(names.MAKE_POD_DIRECTORIES, request)
        self.directories.add(request.pod.uid)

    @activity.defn(name=names.REMOVE_POD_DIRECTORIES)
    async def remove_pod_directories(self, request: RemovePodDirectories) -> None:
        """Remove them; refused while the runtime still holds something of the pod."""
        await self._called(names.REMOVE_POD_DIRECTORIES, request)
        assert not self.sandboxes, "directories go last"
        assert request.pod.uid not in self.mounted, "nothing is removed below a mount"
        assert request.pod.uid not in self.prepared, "and nothing before the claims are unprepared"
        self.directories.discard(request.pod.uid)

    @activity.defn(name=names.DELETE_POD_OBJECT)
    async def delete_pod_object(self, request: DeletePodObject) -> None:
        """Delete the pod's object; refused while anything of the pod is left."""
        await self._called(names.DELETE_POD_OBJECT, request)
        assert request.pod.uid not in self.directories, "the object goes when nothing is left"

    @activity.defn(name=names.AWAIT_PREDECESSOR)
    async def await_predecessor(self, request: AwaitPredecessor) -> None:
        """Return once no predecessor is left."""
        await self._called(names.AWAIT_PREDECESSOR, request)
        self.predecessors.clear()

    @activity.defn(name=names.RUN_POD_SANDBOX)
    async def run_pod_sandbox(self, request: RunPodSandbox) -> PodSandbox:
        """Create a sandbox, unless that of this attempt is there."""
        await self._called(names.RUN_POD_SANDBOX, request)
        if self.predecessors:
            raise ApplicationError(", ".join(self.predecessors), type="PredecessorPresent", non_retryable=True)
        for one in self.sandboxes.values():
            if one.ready and one.attempt == request.attempt:
                return PodSandbox(one.sandbox_id, one.attempt, one.ips, one.created_at, adopted=True)
        assert not any(one.ready for one in self.sandboxes.values()), "one live sandbox a pod"
        if request.containers:
            self.directories.add(request.pod.uid)
        made = Sandbox(f"sandbox-{self.ids()}", request.attempt, ready=True, ips=("10.88.0.5",))
        self.sandboxes[made.sandbox_id] = made
        return PodSandbox(made.sandbox_id, made.attempt, made.ips, datetime.now(UTC))

    @activity.defn(name=names.STOP_POD_SANDBOX)
    async def stop_pod_sandbox(self, request: StopPodSandbox) -> None:
        """Stop it."""
        await self._called(names.STOP_POD_SANDBOX, request)
        if request.sandbox_id in self.sandboxes:
            self.sandboxes[request.sandbox_id] = replace(self.sandboxes[request.sandbox_id], ready=False)

    @activity.defn(name=names.REMOVE_POD_SANDBOX)
    async def remove_pod_sandbox(self, request: RemovePodSandbox) -> None:
        """Remove it with everything in it."""
        await self._called(names.REMOVE_POD_SANDBOX, request)
        self.sandboxes.pop(request.sandbox_id, None)
        inside = [one.container_id for one in self.containers.values() if one.sandbox_id == request.sandbox_id]
        for container_id in inside:
            del self.containers[container_id]

    @activity.defn(name=names.MOUNT_VOLUMES)
    async def mount_volumes(self, request: MountVolumes) -> MountedVolumes:
        """Mount them."""
        await self._called(names.MOUNT_VOLUMES, request)
        self.mounted.add(request.pod.uid)
        shown = [name for one in request.volumes for name, _ in shown_objects(one)]
        return MountedVolumes(
            tuple(MountedVolume(one["name"], f"/volumes/{one['name']}") for one in request.volumes),
            objects={name: self.objects.get(name, "") for name in shown},
        )

    @activity.defn(name=names.UNMOUNT_VOLUMES)
    async def unmount_volumes(self, request: UnmountVolumes) -> None:
        """Unmount them; refused while a container runs."""
        await self._called(names.UNMOUNT_VOLUMES, request)
        assert not self.live(), "nothing is unmounted while something runs"
        self.mounted.discard(request.pod.uid)

    @activity.defn(name=names.PREPARE_RESOURCES)
    async def prepare_resources(self, request: PrepareResources) -> PreparedResources:
        """Prepare them."""
        await self._called(names.PREPARE_RESOURCES, request)
        self.prepared.add(request.pod.uid)
        return PreparedResources((ClaimedDevice("gpu", "gpu.test", "pool", "device"),))

    @activity.defn(name=names.UNPREPARE_RESOURCES)
    async def unprepare_resources(self, request: UnprepareResources) -> None:
        """Undo it; refused while a container runs."""
        await self._called(names.UNPREPARE_RESOURCES, request)
        assert not self.live(), "nothing is unprepared while something runs"
        self.prepared.discard(request.pod.uid)

    @activity.defn(name=names.READ_IMAGES)
    async def read_images(self, request: ReadImages) -> ImagesPresent:
        """Return which images are present."""
        await self._called(names.READ_IMAGES, request)
        return ImagesPresent({image: f"sha256:{image}" for image in request.images if image in self.images})

    @activity.defn(name=names.PULL_IMAGE)
    async def pull_image(self, request: PullImage) -> PulledImage:
        """Pull it."""
        await self._called(names.PULL_IMAGE, request)
        self.images.add(request.image)
        return PulledImage(f"sha256:{request.image}")

    @activity.defn(name=names.START_CONTAINER)
    async def start_container(self, request: StartContainer) -> RuntimeContainer:
        """Start it, unless that attempt is there; it may exit at once."""
        await self._called(names.START_CONTAINER, request)
        name = request.container["name"]
        assert self.sandboxes[request.sandbox_id].ready, "containers start in a ready sandbox"
        assert request.pod.uid in self.mounted or not request.container.get("volumeMounts"), "mounts come first"
        assert all(bool(one.image) == bool(one.image_ref) for one in request.volumes), "and the images that are mounted"
        for one in self.containers.values():
            if (one.name, one.sandbox_id, one.attempt) == (name, request.sandbox_id, request.attempt):
                return one
        assert name not in self.live(), "one live instance a container"
        now = datetime.now(UTC)
        made = RuntimeContainer(
            name,
            f"{name}-{self.ids()}",
            request.sandbox_id,
            request.attempt,
            ContainerState.RUNNING,
            request.container["image"],
            request.image_ref,
            created_at=now,
            started_at=now,
            hash=container_hash(name, request.container["image"]),
        )
        self.containers[made.container_id] = made
        if self.exits_at_once[name]:
            self.end(made.container_id, self.exits_at_once[name].pop(0))
        return self.containers[made.container_id]

    @activity.defn(name=names.RUN_HOOK)
    async def run_hook(self, request: RunHook) -> HookEnded:
        """Run it; it fails as often as the test says."""
        await self._called(names.RUN_HOOK, request)
        failures = self.hooks_fail[request.name]
        return HookEnded(succeeded=False, message=failures.pop(0)) if failures else HookEnded(succeeded=True)

    @activity.defn(name=names.STOP_CONTAINER)
    async def stop_container(self, request: StopContainer) -> RuntimeContainer:
        """Stop it."""
        await self._called(names.STOP_CONTAINER, request)
        if self.containers[request.container_id].state is not ContainerState.EXITED:
            self.end(request.container_id, 143)
        return self.containers[request.container_id]

    @activity.defn(name=names.SHORTEN_STOP)
    async def shorten_stop(self, request: ShortenStop) -> RuntimeContainer:
        """End a pending stop at once, with the same exit."""
        await self._called(names.SHORTEN_STOP, request)
        if self.containers[request.container_id].state is not ContainerState.EXITED:
            self.end(request.container_id, 137)
        if names.STOP_CONTAINER in self.held:
            self.held[names.STOP_CONTAINER].set()
        return self.containers[request.container_id]

    @activity.defn(name=names.PROBE_CONTAINER)
    async def probe_container(self, request: ProbeContainer) -> None:
        """Last as long as the container; the test sends the verdicts."""
        await self._called(names.PROBE_CONTAINER, request)
        await self.ended[request.container_id].wait()

    @activity.defn(name=names.REMOVE_CONTAINER)
    async def remove_container(self, request: RemoveContainer) -> None:
        """Remove it."""
        await self._called(names.REMOVE_CONTAINER, request)
        self.containers.pop(request.container_id, None)

    @activity.defn(name=names.UPDATE_CONTAINER_RESOURCES)
    async def update_container_resources(self, request: UpdateContainerResources) -> RuntimeResources:
        """Update them, and return what the container has now."""
        await self._called(names.UPDATE_CONTAINER_RESOURCES, request)
        figures = container_resources(request.sandbox_spec, request.container, NodeResources(memory_capacity=2**34))
        return RuntimeResources(
            figures.cpu_shares, figures.cpu_quota, figures.cpu_period, figures.memory_limit_in_bytes
        )

    @activity.defn(name=names.READ_POD_RUNTIME)
    async def read_pod_runtime(self, request: ReadPodRuntime) -> PodRuntime:
        """Return everything the runtime knows of the pod."""
        await self._called(names.READ_POD_RUNTIME, request)
        newest_first = sorted(self.containers.values(), key=lambda one: -one.attempt)
        return PodRuntime(tuple(self.sandboxes.values()), tuple(newest_first))
