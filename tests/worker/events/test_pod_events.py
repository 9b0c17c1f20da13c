"""Do activities, snapshots and probes record the kubelet's events, each once?"""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from proto.pod_snapshot import PodSnapshot, pod_path
from proto.temporal.activities.claims import PrepareResources
from proto.temporal.activities.requests import (
    PodSandbox,
    PulledImage,
    PullImage,
    RunHook,
    RunPodSandbox,
    RuntimeContainer,
    StartContainer,
    StopContainer,
    StopPodSandbox,
)
from proto.temporal.activities.volumes import MountVolumes
from proto.temporal.hardware.ledger import AllocateHardware
from proto.temporal.hooks import Hook, HookEnded
from proto.temporal.pod import ContainerState, PodKey, ProbeKind
from worker.events.activity_table import go_duration
from worker.events.event import Occurrence, new_event, node_reference
from worker.events.pod_events import PodEvents

POD = PodKey("default", "web", "uid-1")
SPEC = {
    "initContainers": [{"name": "first", "image": "busybox:1"}],
    "containers": [{"name": "web", "image": "nginx:1"}, {"name": "twin", "image": "nginx:1"}],
}
ASKED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
RUNNING = RuntimeContainer("web", "c1", "s1", 0, ContainerState.RUNNING)
START = StartContainer(POD, "s1", 0, "sha256:1", {"name": "web", "image": "nginx:1"}, {})
STOP = StopContainer(POD, "web", "c1", timedelta(seconds=30), ASKED, "PodDeleted: its object was deleted in the API")
PRE_STOP = RunHook(POD, "web", "c1", Hook.PRE_STOP, {}, reason="PodDeleted: its object was deleted in the API")
ALLOCATE = AllocateHardware({"metadata": {"namespace": "default", "name": "web", "uid": "uid-1"}, "spec": {}})
PULL = PullImage(POD, "nginx:1", "IfNotPresent")
PULLED = PulledImage("sha256:1", size_bytes=1234, took=timedelta(seconds=2.5), waited=timedelta(seconds=1))


class Told:
    """A recorder that stores occurrences."""

    def __init__(self) -> None:
        self.all: list[Occurrence] = []

    def take(self, happened: Occurrence) -> None:
        """Store it."""
        self.all.append(happened)

    def said(self) -> list[str]:
        """Return the stored occurrences, one line each, and clear them."""
        lines = [
            " ".join(filter(None, (one.about.field_path, one.type[0], one.reason)) ) + f": {one.message}" for one in self.all
        ]  # fmt: skip
        self.all.clear()
        return lines


@pytest.fixture
def told() -> Told:
    """A recorder."""
    return Told()


@pytest.fixture
def events(told: Told, tmp_path: Path) -> PodEvents:
    """Record the events of one pod."""
    made = PodEvents(told, tmp_path, checks_rights=True)  # type: ignore[arg-type]  # takes what a recorder takes
    made.publish(snapshot())
    return made


def snapshot(**status: Any) -> PodSnapshot:
    """Return a snapshot of the pod."""
    return PodSnapshot(
        "", "n1", "default", "web", "uid-1", "api", "", "sync", status=status, pod={"metadata": {}, "spec": SPEC}
    )


@pytest.mark.parametrize(
    ("request_", "answer", "lines"),
    [
        pytest.param(RunPodSandbox(POD, 0, {}), PodSandbox("s1", 0), [], id="a-first-sandbox-says-nothing"),
        pytest.param(
            RunPodSandbox(POD, 1, {}),
            PodSandbox("s1", 1, notices=("DNSConfigForming: Search Line limits were exceeded",)),
            [
                "N SandboxChanged: Pod sandbox changed, it will be killed and re-created.",
                "W DNSConfigForming: Search Line limits were exceeded",
            ],
            id="a-further-sandbox",
        ),
        pytest.param(
            PULL,
            PULLED,
            [
                (
                    'spec.containers{web} N Pulled: Successfully pulled image "nginx:1" in 1.5s (2.5s including waiting). '
                    "Image size: 1234 bytes."
                ),
            ],
            id="a-pull-is-told-of-the-first-that-needs-it",
        ),
        pytest.param(
            PULL,
            PulledImage(
                "", present=True, warnings=("FailedToRetrieveImagePullSecret: Unable to retrieve (a).", "other")
            ),
            ["W FailedToRetrieveImagePullSecret: Unable to retrieve (a)."],
            id="a-pull-without-one-of-its-secrets",
        ),
        pytest.param(
            START,
            RUNNING,
            [
                (
                    'spec.containers{web} N Pulled: Container image "nginx:1" already present on machine and can be accessed '
                    "by the pod"
                ),
                "spec.containers{web} N Created: Container created",
                "spec.containers{web} N Started: Container started",
            ],
            id="a-start",
        ),
        pytest.param(
            START,
            replace(
                RUNNING, state=ContainerState.EXITED, reason="StartError", message="c1: no such file", exit_code=128
            ),
            [
                (
                    'spec.containers{web} N Pulled: Container image "nginx:1" already present on machine and can be accessed '
                    "by the pod"
                ),
                "spec.containers{web} N Created: Container created",
                "spec.containers{web} W Failed: Error: web: no such file",
            ],
            id="one-that-was-made-and-could-not-start",
        ),
        pytest.param(STOP, RUNNING, ["spec.containers{web} N Killing: Stopping container web"], id="a-stop"),
        pytest.param(
            replace(STOP, reason="Container web failed liveness probe, will be restarted"),
            RUNNING,
            ["spec.containers{web} N Killing: Container web failed liveness probe, will be restarted"],
            id="a-stop-for-its-probe",
        ),
        pytest.param(
            replace(STOP, reason="FailedPostStartHook: exit code 1: a secret"),
            RUNNING,
            ["spec.containers{web} N Killing: FailedPostStartHook"],
            id="a-stop-for-its-hook-tells-nothing-of-its-output",
        ),
        pytest.param(
            RunHook(POD, "web", "c1", Hook.POST_START, {}),
            HookEnded(succeeded=False, message="exit code 1: a secret"),
            ["spec.containers{web} W FailedPostStartHook: PostStartHook failed"],
            id="a-hook-that-failed-tells-nothing-of-its-output",
        ),
        pytest.param(
            RunHook(POD, "web", "c1", Hook.POST_START, {}), HookEnded(succeeded=True), [], id="a-hook-that-went-well"
        ),
        pytest.param(
            PRE_STOP,
            HookEnded(succeeded=False),
            [
                "spec.containers{web} N Killing: Stopping container web",
                "spec.containers{web} W FailedPreStopHook: PreStopHook failed",
            ],
            id="with-the-preStop-hook-the-stop-begins",
        ),
        pytest.param(
            RunHook(POD, "web", "", Hook.PRE_START, {}), HookEnded(succeeded=False), [], id="a-hook-of-our-own"
        ),
    ],
)
def test_what_goes_well(events: PodEvents, told: Told, request_: Any, answer: Any, lines: list[str]) -> None:
    """From an activity's beginning to its result."""
    events.began(request_)
    events.done(request_, answer)
    assert told.said() == lines


@pytest.mark.parametrize(
    ("request_", "reason", "message", "lines"),
    [
        pytest.param(
            RunPodSandbox(POD, 0, {}),
            "FailedCreatePodSandBox",
            "Failed to create pod sandbox of default/web: no network",
            ["W FailedCreatePodSandBox: Failed to create pod sandbox: no network"],
            id="no-sandbox",
        ),
        pytest.param(
            RunPodSandbox(POD, 0, {}), "NetworkNotReady", "cni", ["W NetworkNotReady: network is not ready: cni"], id="no-network"
        ),
        pytest.param(RunPodSandbox(POD, 0, {}), "PredecessorPresent", "another", [], id="a-predecessor-is-no-fault"),
        pytest.param(RunPodSandbox(POD, 0, {}), "RuntimeUnavailable", "away", [], id="nor-is-an-absent-runtime"),
        pytest.param(
            PULL,
            "ErrImagePull",
            "not found",
            [
                'spec.containers{web} W Failed: Failed to pull image "nginx:1": not found',
                "spec.containers{web} W Failed: Error: ErrImagePull",
            ],
            id="no-image",
        ),
        pytest.param(
            replace(PULL, policy="Never"),
            "ErrImageNeverPull",
            "is not present",
            ["spec.containers{web} W ErrImageNeverPull: is not present", "spec.containers{web} W Failed: Error: ErrImageNeverPull"],
            id="never-pulled",
        ),
        pytest.param(
            PULL,
            "ImageInspectError",
            "Failed to inspect image",
            [
                "spec.containers{web} W InspectFailed: Failed to inspect image",
                "spec.containers{web} W Failed: Error: ImageInspectError",
            ],
            id="not-inspected",
        ),
        pytest.param(
            START, "CreateContainerConfigError", "no key", ["spec.containers{web} W Failed: Error: no key"], id="not-created"
        ),
        pytest.param(
            START,
            "CreateContainerConfigError",
            "create container web of default/web: no such file",
            ["spec.containers{web} W Failed: Error: no such file"],
            id="of-which-container-says-the-event-itself",
        ),
        pytest.param(
            START,
            "RunContainerError",
            "no exec",
            ["spec.containers{web} N Created: Container created", "spec.containers{web} W Failed: Error: no exec"],
            id="created-but-not-started",
        ),
        pytest.param(
            StopPodSandbox(POD, "s1"), "KillPodSandboxError", "busy", ["W FailedKillPod: error killing pod: busy"], id="not-killed"
        ),
        pytest.param(
            MountVolumes(POD, (), {}), "FailedMount", 'MountVolume.SetUp failed for volume "a"',
            ['W FailedMount: MountVolume.SetUp failed for volume "a"'], id="not-mounted",
        ),
        pytest.param(
            MountVolumes(POD, (), {}), "VolumeAttachmentLimitExceeded", "no place", [], id="a-rejection-is-told-by-the-status"
        ),
        pytest.param(
            MountVolumes(POD, (), {}),
            "FailedMount",
            'MountVolume.SetUp failed for volume "a" : one; two; MountVolume.SetUp failed for volume "b" : three',
            [
                'W FailedMount: MountVolume.SetUp failed for volume "a" : one; two',
                'W FailedMount: MountVolume.SetUp failed for volume "b" : three',
            ],
            id="each-volume-that-is-not-mounted-by-itself",
        ),
        pytest.param(
            MountVolumes(POD, (), {}),
            "FailedMount",
            'MountVolume.WaitForAttach failed for volume "a" : one; MountVolume.NodeAffinity check failed for volume "d" : five; MapVolume.MarkVolumeAsMounted failed while expanding volume for '
            'volume "b" : two; Unable to attach or mount volumes: unmounted volumes=[c], three; four',
            [
                'W FailedMount: MountVolume.WaitForAttach failed for volume "a" : one',
                'W FailedMount: MountVolume.NodeAffinity check failed for volume "d" : five',
                'W FailedMapVolume: MapVolume.MarkVolumeAsMounted failed while expanding volume for volume "b" : two',
                "W FailedMount: Unable to attach or mount volumes: unmounted volumes=[c], three; four",
            ],
            id="at-other-steps",
        ),
        pytest.param(
            MountVolumes(POD, (), {}),
            "FailedMount",
            'MapVolume.SetUpDevice failed for volume "a" : one; MountVolume.SetUp failed for volume "b" : two; '
            'MapVolume.SetUpDevice failed for volume "c" : three',
            [
                'W FailedMapVolume: MapVolume.SetUpDevice failed for volume "a" : one',
                'W FailedMount: MountVolume.SetUp failed for volume "b" : two',
                'W FailedMapVolume: MapVolume.SetUpDevice failed for volume "c" : three',
            ],
            id="a-block-device-is-mapped",
        ),
        pytest.param(
            PrepareResources(POD, {}), "FailedPrepareDynamicResources", "Failed to prepare dynamic resources: no",
            ["W FailedPrepareDynamicResources: Failed to prepare dynamic resources: no"], id="claims-not-prepared",
        ),
        pytest.param(
            ALLOCATE, "DevicePluginNotRegistered", "example.com/gpu: waiting for its device plugin to register",
            ["W DevicePluginNotRegistered: example.com/gpu: waiting for its device plugin to register"], id="no-device-plugin",
        ),
        pytest.param(ALLOCATE, "UnexpectedAdmissionError", "no", [], id="rejected-for-its-hardware"),
    ],
)  # fmt: skip
def test_what_fails(events: PodEvents, told: Told, request_: Any, reason: str, message: str, lines: list[str]) -> None:
    """An activity that failed."""
    events.failed(request_, reason, message)
    assert told.said() == lines


@pytest.mark.parametrize(
    ("spec", "is_told"),
    [
        pytest.param({}, True, id="by-default"),
        pytest.param({"hostNetwork": True}, False, id="on-the-host-network-the-nodes"),
        pytest.param(
            {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}, True, id="there-too-when-asked-for"
        ),
        pytest.param({"dnsPolicy": "Default"}, False, id="the-nodes-own"),
    ],
)
def test_a_cluster_whose_name_servers_nobody_told(
    told: Told, tmp_path: Path, spec: dict[str, Any], *, is_told: bool
) -> None:
    """For the node and the pod that needs it, with each sandbox."""
    node = node_reference("n1")
    events = PodEvents(told, tmp_path, checks_rights=True, without_dns=node)  # type: ignore[arg-type]  # takes what a recorder takes
    events.began(RunPodSandbox(POD, 0, {"metadata": {}, "spec": spec}))
    about = [(one.about.kind, one.about.name, one.reason, one.message.partition(". ")[0]) for one in told.all]
    words = 'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy'
    pod = 'pod: "web_default(uid-1)"'
    both = [("Node", "n1", "MissingClusterDNS", words), ("Pod", "web", "MissingClusterDNS", pod)]
    assert about == (both if is_told else [])


def test_a_pull_is_told_when_a_registry_is_asked(events: PodEvents, told: Told) -> None:
    """For the container that waits for it; a pull for the node itself has no event."""
    events.pull_started(PULL)
    events.pull_started(replace(PULL, pod=PodKey("", "", "")))
    assert told.said() == ['spec.containers{web} N Pulling: Pulling image "nginx:1"']


def test_an_image_that_was_just_pulled_is_not_called_present(events: PodEvents, told: Told) -> None:
    """For another container with the same image it is present, and at the next start as well."""
    events.done(PULL, PULLED)
    told.said()
    events.began(START)
    assert told.said() == []
    events.began(replace(START, container={"name": "twin", "image": "nginx:1"}))
    events.began(replace(START, attempt=1))
    assert [line.partition(":")[0] for line in told.said()] == [
        "spec.containers{twin} N Pulled",
        "spec.containers{web} N Pulled",
    ]


def test_a_stop_is_told_once(events: PodEvents, told: Told) -> None:
    """Its preStop hook runs first, and is part of it."""
    events.began(PRE_STOP)
    events.began(STOP)
    assert told.said() == ["spec.containers{web} N Killing: Stopping container web"]


def waiting(reason: str, message: str = "", restarts: int = 3) -> dict[str, Any]:
    """Return a status with a waiting container."""
    state = {"waiting": {"reason": reason, "message": message}}
    return {"containerStatuses": [{"name": "web", "restartCount": restarts, "state": state}]}


@pytest.mark.parametrize(
    ("status", "lines"),
    [
        pytest.param(
            waiting("CrashLoopBackOff"),
            ["spec.containers{web} W BackOff: Back-off restarting failed container web in pod web_default(uid-1)"],
            id="a-crash-loop",
        ),
        pytest.param(
            waiting("ImagePullBackOff", 'Back-off pulling image "nginx:1": ErrImagePull: no'),
            [
                'spec.containers{web} N BackOff: Back-off pulling image "nginx:1"',
                "spec.containers{web} W Failed: Error: ImagePullBackOff",
            ],
            id="an-image-that-does-not-come",
        ),
        pytest.param(waiting("ContainerCreating"), [], id="on-its-way"),
        pytest.param(
            {"phase": "Failed", "reason": "NodeAffinity", "message": "Pod was rejected: does not match"},
            ["W NodeAffinity: does not match"],
            id="not-taken",
        ),
        pytest.param(
            {"phase": "Failed", "reason": "Evicted", "message": "too much"}, ["W Evicted: too much"], id="evicted"
        ),
        pytest.param(
            {"phase": "Failed", "reason": "DeadlineExceeded", "message": "longer than its deadline"},
            ["N DeadlineExceeded: longer than its deadline"],
            id="too-long",
        ),
        pytest.param(
            {"conditions": [{"type": "PodResizePending", "reason": "Deferred", "message": "not now"}]},
            ["W ResizeDeferred: not now"],
            id="a-resize-that-waits",
        ),
    ],
)
def test_what_a_status_tells(events: PodEvents, told: Told, status: dict[str, Any], lines: list[str]) -> None:
    """Once, however often it is published, and again after it was absent."""
    for _ in range(3):
        events.publish(snapshot(**status))
    assert told.said() == lines
    events.publish(snapshot())
    events.publish(snapshot(**status))
    assert told.said() == lines


def test_an_eviction_names_what_was_starved(events: PodEvents, told: Told) -> None:
    """In annotations, which tools read."""
    low = snapshot(phase="Failed", reason="Evicted", message="low")
    events.publish(replace(low, event_annotations={"starved_resource": "memory"}))
    (happened,) = told.all
    event = new_event(happened, "n1", datetime(2026, 11, 28, tzinfo=UTC))
    assert event["metadata"]["annotations"] == {"starved_resource": "memory"}


@pytest.mark.parametrize(
    "end",
    [
        pytest.param({"phase": "Failed", "reason": "Evicted", "message": "low"}, id="failed"),
        pytest.param({"phase": "Succeeded"}, id="succeeded-without-a-reason"),
    ],
)
def test_an_eviction_is_told_once_and_when_it_begins(events: PodEvents, told: Told, end: dict[str, Any]) -> None:
    """However the pod ends."""
    for status, lines in (({"phase": "Running"}, ["W Evicted: low"]), (end, [])):
        events.publish(replace(snapshot(**status), eviction_reason="Evicted", eviction_message="low"))
        assert told.said() == lines


def test_a_rejected_pod_tells_why_without_the_prefix_of_its_status(events: PodEvents, told: Told) -> None:
    """As the kubelet: only the status says "Pod was rejected"."""
    message = "Pod was rejected: Node didn't have enough resource: cpu"
    end = snapshot(phase="Failed", reason="OutOfcpu", message=message)
    events.publish(replace(end, eviction_reason="OutOfcpu", eviction_message=message))
    assert told.said() == ["W OutOfcpu: Node didn't have enough resource: cpu"]


def test_a_resize_that_is_not_granted_is_told_with_what_it_asks_for(events: PodEvents, told: Told) -> None:
    """In the words of the kubelet, once for each generation: its cause, not the condition's reason."""
    status = {
        "conditions": [{"type": "PodResizePending", "reason": "Deferred", "message": "no", "observedGeneration": 2}]
    }
    asked = {"web": {"requests": {"memory": "1Gi", "cpu": "2"}}}
    for _ in range(2):
        events.publish(replace(snapshot(**status), resize_cause="OutOfcpu", resize_asked=asked))
    others = '"initContainers":[{"name":"first","resources":{}}],"containers":'
    web = '{"name":"web","resources":{"requests":{"cpu":"2","memory":"1Gi"}}}'
    content = f'{others}[{web},{{"name":"twin","resources":{{}}}}],"generation":2,"error":"no"'
    assert told.said() == [f"W ResizeDeferred: Pod resize OutOfcpu: {{{content}}}"]


def resizing(generation: int, **more: str) -> dict[str, Any]:
    """Return a status with a resize in progress."""
    return {"conditions": [{"type": "PodResizeInProgress", "observedGeneration": generation, **more}]}


def test_a_resize_is_told_from_its_beginning_to_its_end(events: PodEvents, told: Told) -> None:
    """With the containers' resources; no event if another one or the pod's end replaces it."""
    for status in (resizing(2), resizing(2, reason="Error", message="busy"), resizing(2), resizing(3), {}):
        events.publish(snapshot(**status))
    containers = '"containers":[{"name":"web","resources":{}},{"name":"twin","resources":{}}]'
    first = '"initContainers":[{"name":"first","resources":{}}]'
    assert told.said() == [
        f'N ResizeStarted: Pod resize started: {{{first},{containers},"generation":2}}',
        f'W ResizeError: Pod resize error: {{{first},{containers},"generation":2,"error":"busy"}}',
        f'N ResizeStarted: Pod resize started: {{{first},{containers},"generation":3}}',
        f'N ResizeCompleted: Pod resize completed: {{{first},{containers},"generation":3}}',
    ]
    events.publish(snapshot(**resizing(4)))
    told.said()
    events.publish(snapshot(phase="Succeeded"))
    assert told.said() == []


def test_a_new_worker_tells_nothing_again(told: Told, tmp_path: Path) -> None:
    """The cache has what the previous worker recorded, and the pods' containers."""
    path = pod_path(tmp_path, "uid-1")
    path.parent.mkdir(parents=True)
    path.write_text('{"spec": {"containers": [{"name": "web"}]}}')
    events = PodEvents(told, tmp_path, checks_rights=False)  # type: ignore[arg-type]  # takes what a recorder takes
    events.know([replace(snapshot(**waiting("CrashLoopBackOff")), pod={})])
    events.publish(replace(snapshot(**waiting("CrashLoopBackOff")), pod={}))
    assert told.said() == []
    events.began(STOP)
    assert told.said() == ["spec.containers{web} N Killing: Stopping container web"]


def test_probes(events: PodEvents, told: Told) -> None:
    """Each result except success."""
    events.probed(POD, "web", ProbeKind.LIVENESS, "probe failed: HTTP probe failed with statuscode: 500")
    events.probed(POD, "first", ProbeKind.READINESS, "probe warning: redirected")
    assert told.said() == [
        "spec.containers{web} W Unhealthy: Liveness probe failed: HTTP probe failed with statuscode: 500",
        "spec.initContainers{first} W ProbeWarning: Readiness probe warning: redirected",
    ]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0, "0s"), (0.5, "500ms"), (1.0, "1s"), (1.25, "1.25s"), (61.5, "1m1.5s"), (3600.0, "1h0m0s")],
)
def test_durations_are_written_as_go_does(seconds: float, text: str) -> None:
    """So that they can be compared with the kubelet's."""
    assert go_duration(timedelta(seconds=seconds)) == text


def test_what_was_read_with_the_snapshots_is_not_read_and_held_again(told: Told, tmp_path: Path) -> None:
    """A worker that starts has the pods in its cache, so no file is opened on the event loop."""
    events = PodEvents(told, tmp_path, checks_rights=True)  # type: ignore[arg-type]  # takes what a recorder takes
    events.know([snapshot()])
    events.probed(POD, "web", ProbeKind.LIVENESS, "probe failed: x")
    assert told.said() == ["spec.containers{web} W Unhealthy: Liveness probe failed: x"]
