"""The activities of all pods of a generator, each over a runtime in memory with random delays and failures.

The state of a pod's runtime is `tests.workflows.decide.runtime_model`. This adds time and faults: an action lasts, fails before or
after it took effect, or is retried; a started container exits at a random time, and a hint is sent.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from random import Random
from typing import Any, Final

from temporalio import activity
from temporalio.client import Client
from temporalio.exceptions import ApplicationError
from temporalio.service import RPCError

from proto.temporal import names
from proto.temporal.activities import requests, resize, volumes
from proto.temporal.activities.volumes import MountedVolumes, MountVolumes
from proto.temporal.hooks import HookEnded
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import LinuxUser, PodJson, ProbeKind
from proto.temporal.signals import ProbeVerdict, RuntimeChanged
from tests.replay.lives.drawn_pod import MISSING_IMAGE
from tests.workflows.decide.runtime_model import Refused, RuntimeModel
from workflows.decide.actions import ACTIONS
from workflows.decide.contents import shown_objects

REASONS: Final[dict[type, tuple[str, ...]]] = {
    requests.RunPodSandbox: (
        "FailedCreatePodSandBox",
        "NetworkNotReady",
        "NetworkNotReady",
        "PredecessorPresent",
        "PredecessorPresent",
        "SupplementalGroupsPolicyNotSupported",
    ),
    requests.PullImage: (
        "ErrImagePull",
        "ErrImagePull",
        "RegistryUnavailable",
        "ImageInspectError",
        "InvalidImageName",
        "ErrImageNeverPull",
    ),
    requests.StartContainer: ("CreateContainerConfigError", "CreateContainerError", "RunContainerError"),
    requests.StopContainer: ("FailedKillPod", "DeadlineExceeded"),
    volumes.MountVolumes: ("FailedMount",),
    volumes.UnmountVolumes: ("FailedUnmount",),
}
"""Failure reasons of each action; other actions fail with an unexpected error or a timeout."""
ANY_REASON: Final = ("UnexpectedError", "DeadlineExceeded")
RARE: Final = (
    requests.DeletePodObject,
    requests.MakePodDirectories,
    requests.ReadImages,
    requests.AwaitPredecessor,
    requests.RunHook,
    requests.ShortenStop,
    requests.RemoveContainer,
    resize.UpdatePodSandboxResources,
    resize.UpdateContainerResources,
)
RARE_FAILS: Final = 0.35
"""Chance that these fail: few lives have them."""
SPEED: Final = 0.05
"""Seconds between two polls of a lasting action."""


@dataclass
class FaultRates:
    """How a pod's runtime behaves: chances between 0 and 1."""

    fails: float = 0
    slow: float = 0
    again: float = 0
    """An activity's first attempt fails and the next one succeeds."""
    ends: float = 0
    """A container exits by itself."""
    left: int = 12
    """Remaining failures: a life must end."""

    def settle(self) -> None:
        """Let everything succeed from now on."""
        self.fails = self.slow = self.again = self.ends = 0
        self.left = 0


@dataclass
class FakePod:
    """One pod's part of the node."""

    client: Client
    workflow_id: str
    source: PodJson
    rng: Random
    fault_rates: FaultRates
    model: RuntimeModel
    sequence: int = 0
    asked: int = 0
    """Number of actions so far."""
    predecessors: int = 0
    """How often a sandbox is still refused because another pod has its name."""
    ignores_sigterm: bool = False
    """Containers exit only when their grace period is over."""
    versions: dict[str, int] = field(default_factory=dict)
    """Versions of the objects in volumes."""
    shortened: set[str] = field(default_factory=set)
    """Containers whose stop was shortened."""
    probing: dict[str, requests.ProbeContainer] = field(default_factory=dict)
    fates: set["asyncio.Task[None]"] = field(default_factory=set)
    defects: list[str] = field(default_factory=list)
    """Violations of what the model asserts."""

    async def tell(self, name: str, *said: Any) -> None:
        """Signal the pod's workflow; ignored if it has closed."""
        try:
            await self.client.get_workflow_handle(self.workflow_id).signal(name, args=said)
        except RPCError:
            return

    def verdict(self, asked: requests.ProbeContainer, kind: ProbeKind, *, success: bool) -> ProbeVerdict:
        """Build a probe's verdict."""
        self.sequence += 1
        return ProbeVerdict(asked.name, asked.container_id, kind, success, "" if success else "refused", self.sequence)

    def do(self, request: Any) -> Any:
        """Let an action take effect."""
        self.model.now = datetime.now(UTC)
        try:
            answer = self.model.do(request)
        except Refused as refused:
            raise ApplicationError(str(refused), type="CreateContainerError", non_retryable=True) from None
        except AssertionError as defect:
            self.defects.append(f"{type(request).__name__}: {defect}")
            raise ApplicationError(str(defect), type="UnexpectedError", non_retryable=True) from None
        if isinstance(answer, MountedVolumes):
            return self.mounted(request)
        if isinstance(answer, requests.RuntimeContainer):
            return self.with_runtime_details(answer)
        return answer

    def mounted(self, request: MountVolumes) -> MountedVolumes:
        """Return the content of the volumes."""
        shown = {name for one in request.volumes for name, _ in shown_objects(one)}
        return MountedVolumes(
            tuple(MountedVolume(one["name"], f"/volumes/{one['name']}") for one in request.volumes),
            objects={name: str(self.versions.get(name, 1)) for name in sorted(shown)},
        )

    def with_runtime_details(self, one: requests.RuntimeContainer) -> requests.RuntimeContainer:
        """Add what a real runtime reports besides."""
        return replace(one, stop_signal="SIGTERM", user=LinuxUser(1000, 1000), image="busybox:1", image_ref="sha256:1")

    def end(self, container_id: str, code: int) -> bool:
        """Let a container exit; False if it already has."""
        if not self.model.lives(container_id):
            return False
        self.model.now = datetime.now(UTC)
        self.model.end(container_id, code)
        return True

    def schedule_exit(self, one: requests.RuntimeContainer, *, is_init: bool) -> None:
        """Draw when a started container exits."""
        rng = self.rng
        if is_init or rng.random() < self.fault_rates.ends:
            code = rng.choice([0, 0, 0, 0, 0, 0, 1, 137] if is_init else [0, 0, 0, 1, 42, 137])
            delay = rng.choice([0.01, 0.05, 0.1, 0.3] if is_init else [0.01, 0.1, 0.3, 0.8, 1.5])
            task = asyncio.create_task(self._ends_after(one.container_id, delay, code))
            self.fates.add(task)
            task.add_done_callback(self.fates.discard)

    async def _ends_after(self, container_id: str, delay: float, code: int) -> None:
        await asyncio.sleep(delay)
        if self.end(container_id, code):
            await self.tell(names.RUNTIME_CHANGED, RuntimeChanged("event", exited=(container_id,)))


class FakeRuntime:
    """The activities for all pods of a node."""

    def __init__(self) -> None:
        self.pods: dict[str, FakePod] = {}

    def activities(self) -> list[Callable[..., Any]]:
        """Define one activity for each kind of action that a pod's workflow calls."""
        return [self._activity(kind, call.name, call.result) for kind, call in ACTIONS.items()]

    def _activity(self, kind: type, name: str, result: type | None) -> Callable[..., Any]:
        async def act(request: Any) -> Any:
            return await self.act(self.pods[request.pod.uid], request)

        act.__annotations__ = {"request": kind, "return": result}
        act.__name__ = name
        return activity.defn(name=name)(act)

    async def act(self, pod: FakePod, request: Any) -> Any:
        """Carry an action out, with the pod's faults."""
        rng, fault_rates, info = pod.rng, pod.fault_rates, activity.info()
        pod.asked += 1
        chance = (
            max(fault_rates.fails, RARE_FAILS) if isinstance(request, RARE) and fault_rates.left else fault_rates.fails
        )
        fails, again = rng.random() < chance and fault_rates.left > 0, rng.random() < fault_rates.again
        if (again and info.attempt == 1) or (fails and info.is_local):
            raise ApplicationError("no container runtime answers", type="RuntimeUnavailable")
        if isinstance(request, requests.RunPodSandbox) and pod.predecessors:
            pod.predecessors -= 1
            raise ApplicationError("0123-4567", type="PredecessorPresent", non_retryable=True)
        await self._pass(rng.choice([0.3, 0.8, 2]) if rng.random() < fault_rates.slow else rng.random() * 0.02)
        if isinstance(request, requests.PullImage) and MISSING_IMAGE in request.image:
            raise ApplicationError(f"{request.image} not found", type="ErrImagePull", non_retryable=True)
        if fails:
            fault_rates.left -= 1
            if rng.random() < 0.3:
                await self._effect(pod, request)
            reason = rng.choice(REASONS.get(type(request), ANY_REASON))
            raise ApplicationError(f"drawn for {type(request).__name__}", type=reason, non_retryable=True)
        return await self._effect(pod, request)

    async def _effect(self, pod: FakePod, request: Any) -> Any:
        match request:
            case requests.ProbeContainer():
                return await self._probe(pod, request)
            case requests.RunHook():
                return await self._hook(pod, request)
            case requests.StopContainer():
                await self._await_end(pod, request)
            case requests.ShortenStop(container_id=container_id):
                pod.shortened.add(container_id)
            case requests.AwaitPredecessor():
                await self._pass(pod.rng.choice([0, 0.2, 1, 5]))
            case requests.StartContainer() if request.end_within and pod.rng.random() < 0.5:
                pod.model.early_ends = [pod.rng.choice([0, 0, 0, 1])]
        answer = pod.do(request)
        if isinstance(request, requests.StartContainer):
            name = str(request.container["name"])
            pod.schedule_exit(answer, is_init=name in pod.model.init and name not in pod.model.sidecars)
        if isinstance(request, resize.UpdateContainerResources) and not answer.gone:
            return replace(answer, cpu_shares=512, memory_limit_in_bytes=2**27)
        return answer

    async def _pass(self, seconds: float) -> None:
        """Let time pass with heartbeats, through which a cancellation arrives."""
        over = asyncio.get_running_loop().time() + seconds
        while (left := over - asyncio.get_running_loop().time()) > 0:
            if not activity.info().is_local:
                activity.heartbeat()
            await asyncio.sleep(min(left, SPEED * 2))

    async def _probe(self, pod: FakePod, request: requests.ProbeContainer) -> None:
        pod.probing[request.container_id] = request
        try:
            for kind in ProbeKind:
                if kind.field in request.container and kind not in request.known:
                    await asyncio.sleep(SPEED)
                    success = kind is ProbeKind.LIVENESS or pod.rng.random() < 0.85
                    await pod.tell(names.PROBE_VERDICT, pod.verdict(request, kind, success=success))
            while pod.model.lives(request.container_id):
                await self._pass(SPEED * 2)
        finally:
            pod.probing.pop(request.container_id, None)

    async def _hook(self, pod: FakePod, request: requests.RunHook) -> HookEnded:
        rng, info = pod.rng, activity.info()
        if request.retry and info.attempt < request.retry.max_attempts and rng.random() < 0.4:
            raise ApplicationError("exit code 3", type="HookFailed")
        await self._pass(rng.choice([0, 0.3, 4]) if pod.fault_rates.slow else 0)
        if rng.random() < 0.15 and not (request.container_id == "" and pod.fault_rates.left <= 0):
            pod.fault_rates.left -= 1
            return HookEnded(succeeded=False, message="exit code 3", tries=info.attempt)
        answer = pod.do(request)
        assert isinstance(answer, HookEnded)
        return replace(answer, tries=info.attempt)

    async def _await_end(self, pod: FakePod, request: requests.StopContainer) -> None:
        """Let a container that ignores SIGTERM live until its grace period is over, or shortened."""
        if not pod.ignores_sigterm and pod.rng.random() >= 0.2:
            return
        while datetime.now(UTC) < request.asked_at + request.grace and request.container_id not in pod.shortened:
            if not pod.model.lives(request.container_id) or not (pod.ignores_sigterm or pod.fault_rates.left):
                return
            await self._pass(SPEED * 2)
