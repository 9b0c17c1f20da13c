"""Is what was tried for a pod counted once, as the kubelet counts it, whoever asked for it?"""

from datetime import datetime
from types import SimpleNamespace
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from temporalio.exceptions import ApplicationError

from proto.temporal.activities.requests import (
    PodSandbox,
    PulledImage,
    PullImage,
    ReadPodRuntime,
    RunPodSandbox,
    RuntimeContainer,
    StartContainer,
)
from proto.temporal.activities.resize import UpdateContainerResources, UpdatePodSandboxResources
from proto.temporal.mounted import MountedVolume
from proto.temporal.pod import ContainerState, PodKey
from proto.temporal.resources import RuntimeResources
from worker.telemetry.kubelet.activity_counts import ActivityCounts
from worker.telemetry.kubelet.steps import EPHEMERAL, INIT, REGULAR, StepCounts

POD = PodKey("default", "web", "uid-1")
TYPES = {"setup": INIT, "main": REGULAR, "debug": EPHEMERAL}
IMAGE = MountedVolume("files", image="data:1", image_ref="sha256:data")
STARTED, STARTED_ERRORS = "kubelet_started_containers_total", "kubelet_started_containers_errors_total"


class Pods:
    """Play what is known of the pods."""

    def __init__(self) -> None:
        self.pulls: list[str] = []
        self.resizes: list[tuple[str, bool]] = []

    def type_of(self, _: str, name: str) -> str:
        """Look it up."""
        return TYPES[name]

    def type_with(self, _: str, image: str) -> str:
        """Find the init container's image."""
        return INIT if image == "setup:1" else REGULAR

    def pulled(self, uid: str, span: tuple[datetime, datetime]) -> None:
        """Note it."""
        assert span[0] <= span[1]
        self.pulls.append(uid)

    def resized(self, uid: str, span: tuple[datetime, datetime], *, failed: bool) -> None:
        """Note it."""
        assert span[0] <= span[1]
        self.resizes.append((uid, failed))


class Counted:
    """The counts of one node."""

    def __init__(self) -> None:
        self.registry, self.pods = CollectorRegistry(), Pods()
        self.counts = StepCounts(self.registry)

    async def run(self, request: Any, outcome: Any) -> None:
        """Run an activity with this answer or failure."""

        async def execute(_: Any) -> Any:
            if isinstance(outcome, Exception):
                raise outcome
            return outcome

        following: Any = SimpleNamespace(execute_activity=execute)
        counting: Any = ActivityCounts(self.counts, self.pods).intercept_activity(following)
        asked: Any = SimpleNamespace(args=[request])
        if isinstance(outcome, Exception):
            with pytest.raises(type(outcome)):
                await counting.execute_activity(asked)
        else:
            assert await counting.execute_activity(asked) is outcome

    def of(self, name: str, **labels: str) -> float:
        """Read a count."""
        return self.registry.get_sample_value(name, labels) or 0


@pytest.fixture
def counted() -> Counted:
    """Return counts of nothing."""
    return Counted()


def sandbox(**spec: Any) -> RunPodSandbox:
    """Ask for a sandbox."""
    return RunPodSandbox(POD, 0, {"metadata": {}, "spec": spec})


def start(name: str = "main", mounts: tuple[str, ...] = ()) -> StartContainer:
    """Ask for a container of a pod with one volume of an image and one other."""
    container = {"name": name, "image": f"{name}:1", "volumeMounts": [{"name": one} for one in mounts]}
    return StartContainer(POD, "s1", 0, "sha256:x", container, {}, volumes=(IMAGE, MountedVolume("other", "/x")))


def container(**more: Any) -> RuntimeContainer:
    """Answer with a container that runs."""
    return RuntimeContainer("main", "c1", "s1", 0, ContainerState.RUNNING, **more)


def failure(reason: str) -> ApplicationError:
    """Fail for this reason."""
    return ApplicationError("no", type=reason)


@pytest.mark.parametrize(
    ("outcome", "started", "errors"),
    [
        pytest.param(PodSandbox("s1", 0), 1, 0, id="made"),
        pytest.param(PodSandbox("s1", 0, adopted=True), 0, 0, id="made-by-an-earlier-try"),
        pytest.param(failure("FailedCreatePodSandBox"), 1, 1, id="not-made"),
        pytest.param(failure("PredecessorPresent"), 0, 0, id="not-asked-for-yet"),
        pytest.param(failure("RuntimeUnavailable"), 0, 0, id="the-runtime-is-away"),
    ],
)
@pytest.mark.parametrize("namespaced", [False, True], ids=["of-the-host", "in-a-user-namespace"])
async def test_sandboxes(counted: Counted, outcome: Any, started: int, errors: int, *, namespaced: bool) -> None:
    """Each try of making one; those in user namespaces also apart."""
    await counted.run(sandbox(hostUsers=not namespaced), outcome)
    assert counted.of("kubelet_started_pods_total") == started
    assert counted.of("kubelet_started_pods_errors_total") == errors
    assert counted.of("kubelet_started_user_namespaced_pods_total") == started * namespaced
    assert counted.of("kubelet_started_user_namespaced_pods_errors_total") == errors * namespaced


@pytest.mark.parametrize(("name", "kind"), TYPES.items(), ids=TYPES)
async def test_containers_by_type(counted: Counted, name: str, kind: str) -> None:
    """One that starts, and one that cannot, which the kubelet counts as started, too."""
    await counted.run(start(name), container())
    await counted.run(start(name), container(adopted=True))
    await counted.run(start(name), failure("CreateContainerConfigError"))
    await counted.run(start(name), failure("RuntimeUnavailable"))
    assert counted.of(STARTED, container_type=kind) == 2
    assert counted.of(STARTED_ERRORS, container_type=kind, code="CreateContainerConfigError") == 1


async def test_a_pull_that_fails_fails_the_container_that_waits_for_it(counted: Counted) -> None:
    """With its own reason."""
    await counted.run(PullImage(POD, "setup:1", "Always"), failure("ErrImagePull"))
    assert counted.of(STARTED, container_type=INIT) == 1
    assert counted.of(STARTED_ERRORS, container_type=INIT, code="ErrImagePull") == 1


@pytest.mark.parametrize(
    ("answer", "pulls"),
    [
        pytest.param(PulledImage("sha256:x"), ["uid-1"], id="pulled"),
        pytest.param(PulledImage("sha256:x", present=True), [], id="it-was-there"),
    ],
)
async def test_pulls_are_noted_for_the_pods_start(counted: Counted, answer: PulledImage, pulls: list[str]) -> None:
    """Their time is no part of the SLI."""
    await counted.run(PullImage(POD, "main:1", "Always"), answer)
    assert counted.pods.pulls == pulls
    assert counted.of(STARTED, container_type=REGULAR) == 0


@pytest.mark.parametrize(
    ("outcome", "mounted", "failed"),
    [pytest.param(container(), 1, 0, id="started"), pytest.param(failure("RunContainerError"), 0, 1, id="not-started")],
)
async def test_volumes_of_images(counted: Counted, outcome: Any, mounted: int, failed: int) -> None:
    """Those that the container mounts."""
    await counted.run(start(mounts=("files", "other")), outcome)
    await counted.run(start(mounts=("other",)), outcome)
    found = [
        counted.of(f"kubelet_image_volume_{what}_total") for what in ("requested", "mounted_succeed", "mounted_errors")
    ]
    assert found == [1, mounted, failed]


def test_calls_of_the_runtime_by_its_handler(counted: Counted) -> None:
    """Duration and failures."""
    counted.counts.sandbox("gvisor", 0.2, failed=False)
    counted.counts.sandbox("gvisor", 0.2, failed=True)
    assert counted.of("kubelet_run_podsandbox_duration_seconds_count", runtime_handler="gvisor") == 2
    assert counted.of("kubelet_run_podsandbox_errors_total", runtime_handler="gvisor") == 1


async def test_a_defect_in_counting_fails_no_activity(counted: Counted) -> None:
    """It is logged."""
    await counted.run(start("unknown"), container())
    await counted.run(ReadPodRuntime(POD), "anything")


async def test_steps_of_resizes_are_passed_on() -> None:
    """Those that fail, too."""
    counted = Counted()
    update = UpdatePodSandboxResources(POD, "s", {}, growing=True)
    await counted.run(update, None)
    await counted.run(update, ApplicationError("no", type="ResizePodInPlaceError"))
    await counted.run(UpdateContainerResources(POD, "main", "c", {}, {}), RuntimeResources())
    assert counted.pods.resizes == [("uid-1", False), ("uid-1", True), ("uid-1", False)]
