"""A runtime in memory for the state machine over the pure core; it holds what a CRI runtime would, and nothing else.

Every call may be repeated, as by a retried activity: existing things are found. It asserts by itself what may never happen:
two live sandboxes of a pod, two live instances of a container, a container started before its turn, a sidecar stopped before
the containers that it serves.
"""

import itertools
from dataclasses import dataclass, field, replace
from datetime import datetime

from proto.kubernetes.container_hash import container_hash
from proto.temporal.activities.claims import PreparedResources, PrepareResources, UnprepareResources
from proto.temporal.activities.requests import (
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
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.activities.volumes import MountVolumes, UnmountVolumes
from proto.temporal.hooks import Hook, HookEnded
from proto.temporal.pod import ContainerState, PodJson, Sandbox
from proto.temporal.resources import CgroupFigures, RuntimeResources
from tests.workflows.decide.volumes.shown_objects import ShownObjects
from workflows.decide.actions import Action
from workflows.decide.containers.restart import NEEDS_RESTART
from workflows.decide.hooks.hooks import FAILED_POST_START
from workflows.decide.record.fold import Answer
from workflows.decide.resources.allocation import figures, grown
from workflows.decide.resources.resources import compute


class Refused(Exception):
    """The runtime refuses the call for now."""


class Lasting(Exception):
    """The action lasts until its container has exited."""


@dataclass
class RuntimeModel:
    """One pod's part of a runtime."""

    init: tuple[str, ...]
    """Names of the init containers, in order."""
    now: datetime
    sidecars: tuple[str, ...] = ()
    """The sidecars among them."""
    ephemeral: set[str] = field(default_factory=set)
    """Ephemeral containers: each is created once, in whichever sandbox."""
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    containers: dict[str, RuntimeContainer] = field(default_factory=dict)
    directories: bool = False
    mounted: set[str] = field(default_factory=set)
    """The names of the mounted volumes."""
    bounded: bool = True
    """No container may have more than the pod's cgroup, as under cgroup v1."""
    claims_prepared: bool = False
    """Its claims are prepared."""
    objects: ShownObjects = field(default_factory=ShownObjects)
    images: set[str] = field(default_factory=set)
    """The images on the node."""
    succeeded: set[tuple[str, str]] = field(default_factory=set)
    """(sandbox, init container) that really succeeded."""
    resources: dict[str, PodJson] = field(default_factory=dict)
    """Resources of each container, by id."""
    cgroup: CgroupFigures | None = None
    """Resources of the pod's cgroup."""
    came_up: set[tuple[str, str]] = field(default_factory=set)
    """(sandbox, container) that really started."""
    exit_codes: dict[str, int] = field(default_factory=dict)
    """How each container really exited; never forgotten."""
    hooks_fail: set[str] = field(default_factory=set)
    """Containers whose hooks fail: by id; preStart and postStop hooks by name."""
    prepared: set[tuple[str, str, int]] = field(default_factory=set)
    """(sandbox, container, attempt) whose preStart hook succeeded."""
    early_ends: list[int] = field(default_factory=list)
    """Exit codes of the next containers whose start waits for their exit."""
    stopped_with: int = 143
    """The exit code of a container that is stopped: 0 if it handles SIGTERM."""
    forgotten: bool = False
    """Whether the core may not know of all this: its history is lost, and it has not read the runtime yet."""
    overlooked: set[str] = field(default_factory=set)
    """Before behaviour 7: what failed starts created, which the core neither knows nor looks for."""
    ids: "itertools.count[int]" = field(default_factory=itertools.count)

    def live(self) -> list[RuntimeContainer]:
        """The containers that have not exited."""
        return [one for one in self.containers.values() if one.state is not ContainerState.EXITED]

    def lives(self, container_id: str) -> bool:
        """Return whether a container exists and has not exited."""
        return container_id in {one.container_id for one in self.live()}

    def runs(self, container_id: str) -> bool:
        """Return whether a container exists and runs."""
        found = self.containers.get(container_id)
        return found is not None and found.state is ContainerState.RUNNING

    def ready(self) -> list[Sandbox]:
        """The sandboxes that are ready."""
        return [one for one in self.sandboxes.values() if one.ready]

    def end(self, container_id: str, code: int) -> None:
        """Let a container exit."""
        one = self.containers[container_id]
        self.exit_codes[container_id] = code
        if code == 0:
            self.succeeded.add((one.sandbox_id, one.name))
        self.containers[container_id] = replace(
            one, state=ContainerState.EXITED, exit_code=code, finished_at=self.now, reason="" if code else "Completed"
        )

    def lose_sandbox(self, sandbox_id: str) -> None:
        """Let a sandbox die; its containers keep running."""
        self.sandboxes[sandbox_id] = replace(self.sandboxes[sandbox_id], ready=False)

    def do(self, action: Action) -> Answer:  # noqa: C901, PLR0912, PLR0915 - a table, one row for each kind
        """Carry out an action; raises Refused or Lasting."""
        match action:
            case MakePodDirectories():
                self.directories = True
            case RemovePodDirectories():
                assert not self.sandboxes, "directories go last"
                assert not self.mounted, "nothing is removed below a mount"
                assert not self.claims_prepared, "and nothing before the claims are unprepared"
                assert not self.containers, "directories go last"
                self.directories = False
            case DeletePodObject():
                assert not self.directories, "the object goes when nothing is left"
            case PullImage(image=image):
                self.images.add(image)
                return PulledImage(f"sha256:{image}")
            case ReadImages(images=images):
                return ImagesPresent({image: f"sha256:{image}" for image in images if image in self.images})
            case RunPodSandbox(attempt=attempt, containers=containers):
                self.directories = self.directories or bool(containers)
                self.cgroup = figures(action.sandbox_spec)
                return self.run_sandbox(attempt)
            case StopPodSandbox(sandbox_id=sandbox_id):
                self.stop_sandbox(sandbox_id)
            case RemovePodSandbox(sandbox_id=sandbox_id):
                self.remove_sandbox(sandbox_id)
            case StartContainer():
                return self.start(action)
            case RunHook(hook=Hook.PRE_START | Hook.POST_STOP):
                return self.run_own_hook(action)
            case RunHook(container_id=container_id):
                return self.run_hook(container_id)
            case StopContainer() | ShortenStop():
                return self.stop(action)
            case ProbeContainer(container_id=container_id):
                if self.lives(container_id):
                    raise Lasting
            case RemoveContainer(container_id=container_id):
                self.containers.pop(container_id, None)
            case MountVolumes():
                assert action.volumes, "only a pod that uses volumes mounts any"
                self.mounted |= {one["name"] for one in action.volumes}
                return self.objects.mount(action)
            case UnmountVolumes():
                assert not self.live(), "nothing is unmounted while something runs"
                self.mounted.clear()
            case PrepareResources():
                assert action.pod_spec["spec"]["resourceClaims"], "only a pod that has claims prepares any"
                self.claims_prepared = True
                return PreparedResources()
            case UnprepareResources():
                assert not self.live(), "nothing is unprepared while something runs"
                assert not self.ready(), "and not before the sandbox is stopped"
                self.claims_prepared = False
            case UpdatePodSandboxResources(growing=growing):
                given = figures(action.sandbox_spec)
                self.cgroup = grown(self.cgroup, given) if growing and self.cgroup else given
            case UpdateContainerResources():
                return self.resize(action)
            case ReadPodRuntime():
                self.forgotten = False
                self.overlooked.clear()
                newest_first = sorted(self.containers.values(), key=lambda one: -one.attempt)
                return PodRuntime(tuple(self.sandboxes.values()), tuple(newest_first))
        return None

    def run_sandbox(self, asked: int) -> PodSandbox:
        """Find the ready sandbox of this attempt or a later one, or create one with the first free attempt."""
        found = [one for one in self.ready() if one.attempt >= asked]
        if found:
            return PodSandbox(found[0].sandbox_id, found[0].attempt, found[0].ips, self.now, adopted=True)
        assert not self.ready(), "one live sandbox a pod"
        assert self.forgotten or not self.live(), "nothing lives on in a lost sandbox when a new one is made"
        attempt = max([asked, *(one.attempt + 1 for one in self.sandboxes.values())])
        made = Sandbox(f"s{attempt}-{next(self.ids)}", attempt, ready=True, ips=("10.88.0.5",))
        self.sandboxes[made.sandbox_id] = made
        return PodSandbox(made.sandbox_id, made.attempt, made.ips, self.now)

    def stop_sandbox(self, sandbox_id: str) -> None:
        """Stop a sandbox and its running containers."""
        if sandbox_id in self.sandboxes:
            self.lose_sandbox(sandbox_id)
        for one in self.live():
            if one.sandbox_id == sandbox_id:
                self.end(one.container_id, 137)

    def remove_sandbox(self, sandbox_id: str) -> None:
        """Remove a sandbox with its containers."""
        self.stop_sandbox(sandbox_id)
        self.sandboxes.pop(sandbox_id, None)
        self.containers = {name: one for name, one in self.containers.items() if one.sandbox_id != sandbox_id}

    def start(self, action: StartContainer) -> RuntimeContainer:
        """Find the container of this attempt in this sandbox, or create it with the first free attempt."""
        name = str(action.container["name"])
        own = [one for one in self.containers.values() if one.name == name]
        for one in own:
            if (one.attempt, one.sandbox_id) == (action.attempt, action.sandbox_id):
                self.give(one, action.container.get("resources") or {})
                self.overlooked.discard(one.container_id)
                return one
        if action.sandbox_id not in self.sandboxes or not self.sandboxes[action.sandbox_id].ready:
            raise Refused("the sandbox is not ready")
        assert not [one for one in own if one in self.live()], f"one live instance of {name}"
        assert not own or name not in self.ephemeral, f"{name} is never made again"
        before = self.init[: self.init.index(name)] if name in self.init else self.init
        if name in self.ephemeral:
            before = ()
        if mounts := action.container.get("volumeMounts"):
            assert {one["name"] for one in mounts} <= self.mounted, "a container starts when its volumes are mounted"
            assert action.volumes, "a container is told of its volumes"
            assert all(bool(one.image) == bool(one.image_ref) for one in action.volumes), "images are there before"
        if action.target_id and not self.runs(action.target_id):
            raise Refused("the target container is not running")
        for earlier in before:
            passed = self.came_up if earlier in self.sidecars else self.succeeded
            assert (action.sandbox_id, earlier) in passed, f"{name} waits for {earlier}"
        attempt = max([action.attempt, *(one.attempt + 1 for one in own)])
        made = RuntimeContainer(
            name=name,
            container_id=f"{name}-{attempt}-{next(self.ids)}",
            sandbox_id=action.sandbox_id,
            attempt=attempt,
            state=ContainerState.RUNNING,
            created_at=self.now,
            started_at=self.now,
            hash=container_hash(name, action.container["image"]),
        )
        self.containers[made.container_id] = made
        self.give(made, action.container.get("resources") or {})
        self.came_up.add((action.sandbox_id, name))
        if action.end_within and self.early_ends:
            self.end(made.container_id, self.early_ends.pop())
        return self.containers[made.container_id]

    def run_own_hook(self, hook: RunHook) -> HookEnded:
        """Run a hook that needs no container, perhaps for the second time; a preStart hook fails at most once."""
        if hook.name in self.hooks_fail or not self.sandboxes.get(hook.sandbox_id):
            self.hooks_fail.discard(hook.name)
            return HookEnded(succeeded=False, message="exit code 3")
        if hook.hook is Hook.PRE_START:
            self.prepared.add((hook.sandbox_id, hook.name, hook.attempt))
        return HookEnded(succeeded=True)

    def resize(self, action: UpdateContainerResources) -> RuntimeResources:
        """Update a container's resources; ignored if it is gone or has exited."""
        found = self.containers.get(action.container_id)
        if found is None:
            return RuntimeResources(gone=True)
        self.give(found, action.container["resources"])
        return RuntimeResources(cpu_shares=2)

    def give(self, one: RuntimeContainer, resources: PodJson) -> None:
        """Set a container's share of the pod's resources, which never shrinks."""
        if one.state is not ContainerState.EXITED and not self.forgotten:
            whole = self.cgroup.memory_limit if self.cgroup and self.bounded else None
            assert whole is None or compute(resources).memory_limit <= whole, "the pod has what its container gets"
        self.resources[one.container_id] = resources

    def run_hook(self, container_id: str) -> HookEnded:
        """Run a hook, perhaps for the second time; it fails if its container does not run."""
        found = self.containers.get(container_id)
        if found is None or found.state is not ContainerState.RUNNING:
            return HookEnded(succeeded=False, message="container is not running")
        return HookEnded(succeeded=container_id not in self.hooks_fail)

    def stop(self, action: StopContainer | ShortenStop) -> RuntimeContainer:
        """Stop a container; one that is gone has exited with an unknown code."""
        found = self.containers.get(action.container_id)
        if found is None:
            return RuntimeContainer(action.name, action.container_id, "", 0, ContainerState.EXITED)
        if found.state is not ContainerState.EXITED:
            assert self.is_turn_to_stop(action, found), f"{action.name} stops after what it serves"
            self.end(action.container_id, self.stopped_with)
        return self.containers[action.container_id]

    def is_turn_to_stop(self, action: StopContainer | ShortenStop, found: RuntimeContainer) -> bool:
        """Return whether no container that a sidecar must outlive is still alive.

        A sidecar is stopped alone when its state is unknown, when it has failed a probe or its postStart hook, or for an edit.
        """
        subject = f"Init container {found.name}"
        own_reasons = (f"{subject} failed", f"{subject} definition changed", FAILED_POST_START)
        edited = action.reason.endswith(NEEDS_RESTART)
        alone = found.state is ContainerState.UNKNOWN or action.reason.startswith(own_reasons) or edited
        if found.name not in self.sidecars or alone or self.forgotten:
            return True
        later = self.sidecars[self.sidecars.index(found.name) + 1 :]
        known = [one for one in self.live() if one.container_id not in self.overlooked]
        served = [one for one in known if one.name in later or one.name not in {*self.init, *self.ephemeral}]
        return not served or action.asked_at + action.grace <= self.now
