"""The events of each kind of activity: when it begins, succeeds or fails; one row per kind.

Used by `pod_events`. Reasons and messages are the kubelet's (pkg/kubelet/events/event.go), because dashboards, alerts and
people look for them. An activity that is not listed has no events; the status shows its result.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from proto.kubernetes.go_duration import format_duration
from proto.kubernetes.pod_containers import every_container
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
from proto.temporal.failure_types import (
    FAILED_PREPARE_DYNAMIC_RESOURCES,
    NETWORK_NOT_READY,
    PREDECESSOR_PRESENT,
    RUNTIME_UNAVAILABLE,
    VOLUME_ATTACHMENT_LIMIT_EXCEEDED,
)
from proto.temporal.hardware.ledger import AllocateHardware
from proto.temporal.hooks import Hook
from proto.temporal.pod import ContainerState
from worker.events.event import NORMAL, WARNING, ObjectReference, Occurrence, container_reference
from workflows.decide.devices.requests import NOT_REGISTERED
from workflows.decide.hooks.hooks import FAILED_POST_START, FAILED_PRE_STOP

WAITING_REASONS: Final = frozenset({PREDECESSOR_PRESENT, RUNTIME_UNAVAILABLE})
"""Failures without an event: the pod waits."""
NOT_STARTED: Final = "StartError"
"""The runtime's reason for a container that was created but could not be started."""
LOGIN_MISSING: Final = "FailedToRetrieveImagePullSecret"
"""Prefix of a pull's warning that one of the pod's secrets was missing."""
_NOT_PULLED: Final = frozenset({"ErrImageNeverPull"})
_NOT_INSPECTED: Final = frozenset({"InvalidImageName", "ImageInspectError"})
_NO_DIRECTORIES: Final = "FailedToMakePodDataDirectories"
_NEXT_VOLUME: Final = re.compile(
    r'; (?=(?:Mount|Map)Volume\.\w+ (?:check )?failed (?:while expanding volume )?for volume "|Unable to attach or mount volumes: )'
)
_OF_A_DEVICE: Final = "MapVolume."


@dataclass(frozen=True, slots=True)
class Subject:
    """What the events of an activity are about."""

    pod: ObjectReference
    spec: Mapping[str, Any]
    """The pod's, as far as it is known."""

    def container(self, name: str) -> ObjectReference:
        """Return a reference to one of its containers."""
        return container_reference(self.pod, self.spec, name)

    def first_with(self, image: str) -> ObjectReference:
        """Return a reference to the first container with this image, which is the one that waits for it."""
        return self.container(self.name_with(image))

    def name_with(self, image: str) -> str:
        """Return that container's name, or ""."""
        return next((str(one["name"]) for one in every_container(self.spec) if one.get("image") == image), "")


@dataclass(frozen=True, slots=True)
class Fault:
    """Why an activity has failed."""

    reason: str
    message: str


Began = Callable[[Subject, Any], Iterator[Occurrence]]
Done = Callable[[Subject, Any, Any], Iterator[Occurrence]]
Failed = Callable[[Subject, Any, Fault], Iterator[Occurrence]]


def no_events(*_: Any) -> Iterator[Occurrence]:
    """Yield no event."""
    return iter(())


@dataclass(frozen=True, slots=True)
class Row:
    """The events of one kind of activity."""

    began: Began = no_events
    done: Done = no_events
    failed: Failed = no_events


def _sandbox_began(subject: Subject, request: RunPodSandbox) -> Iterator[Occurrence]:
    if request.attempt > 0:
        yield Occurrence(
            subject.pod, NORMAL, "SandboxChanged", "Pod sandbox changed, it will be killed and re-created."
        )


def missing_cluster_dns(subject: Subject, node: ObjectReference) -> Iterator[Occurrence]:
    """Yield events for the node and the pod: the pod needs cluster DNS, but the node has none configured (dns.go GetPodDNS)."""
    words = 'kubelet does not have ClusterDNS IP configured and cannot create Pod using "ClusterFirst" policy.'
    words += ' Falling back to "Default" policy.'
    pod = subject.pod
    yield Occurrence(node, WARNING, "MissingClusterDNS", words)
    yield Occurrence(pod, WARNING, "MissingClusterDNS", f'pod: "{pod.name}_{pod.namespace}({pod.uid})". {words}')


def _sandbox_done(subject: Subject, _: RunPodSandbox, made: PodSandbox) -> Iterator[Occurrence]:
    for notice in made.notices:
        reason, _sign, message = notice.partition(": ")
        yield Occurrence(subject.pod, WARNING, reason, message)


def _sandbox_failed(subject: Subject, request: RunPodSandbox, fault: Fault) -> Iterator[Occurrence]:
    if fault.reason == NETWORK_NOT_READY:
        message = f"network is not ready: {fault.message}"
        yield Occurrence(subject.pod, WARNING, fault.reason, message)
    elif fault.reason == _NO_DIRECTORIES:
        yield Occurrence(subject.pod, WARNING, "Failed", f"error making pod data directories: {fault.message}")
    else:
        why = fault.message.removeprefix(f"Failed to create pod sandbox of {request.pod}: ")
        yield Occurrence(subject.pod, WARNING, "FailedCreatePodSandBox", f"Failed to create pod sandbox: {why}")


def _pulled(subject: Subject, request: PullImage, answer: PulledImage) -> Iterator[Occurrence]:
    for warning in answer.warnings:
        reason, _, message = warning.partition(": ")
        if reason == LOGIN_MISSING:
            yield Occurrence(subject.pod, WARNING, reason, message)
    if not answer.present:
        about = subject.first_with(request.image)
        took, pulled = go_duration(answer.took), go_duration(answer.took - answer.waited)
        size = f"Image size: {answer.size_bytes} bytes."
        message = f'Successfully pulled image "{request.image}" in {pulled} ({took} including waiting). {size}'
        yield Occurrence(about, NORMAL, "Pulled", message)


def _not_pulled(subject: Subject, request: PullImage, fault: Fault) -> Iterator[Occurrence]:
    about = subject.first_with(request.image)
    if fault.reason in _NOT_PULLED:
        yield Occurrence(about, WARNING, fault.reason, fault.message)
    elif fault.reason in _NOT_INSPECTED:
        yield Occurrence(about, WARNING, "InspectFailed", fault.message)
    else:
        yield Occurrence(about, WARNING, "Failed", f'Failed to pull image "{request.image}": {fault.message}')
    yield Occurrence(about, WARNING, "Failed", f"Error: {fault.reason}")


def _started(subject: Subject, request: StartContainer, answer: RuntimeContainer) -> Iterator[Occurrence]:
    about = subject.container(request.container["name"])
    yield Occurrence(about, NORMAL, "Created", "Container created")
    if answer.state is ContainerState.EXITED and answer.reason == NOT_STARTED:
        message = answer.message.replace(answer.container_id, answer.name)
        yield Occurrence(about, WARNING, "Failed", f"Error: {message}")
    else:
        yield Occurrence(about, NORMAL, "Started", "Container started")


def _not_started(subject: Subject, request: StartContainer, fault: Fault) -> Iterator[Occurrence]:
    about = subject.container(request.container["name"])
    if fault.reason == "RunContainerError":
        yield Occurrence(about, NORMAL, "Created", "Container created")
    why = fault.message.removeprefix(f"create container {request.container['name']} of {request.pod}: ")
    yield Occurrence(about, WARNING, "Failed", f"Error: {why}")


def _stopping(subject: Subject, request: StopContainer | RunHook) -> Iterator[Occurrence]:
    if request.reason.startswith(FAILED_POST_START):  # the rest may quote the hook
        message = FAILED_POST_START
    elif request.reason.startswith(("Container ", "Init container ")):
        message = request.reason
    else:
        message = f"Stopping container {request.name}"
    yield Occurrence(subject.container(request.name), NORMAL, "Killing", message)


def _not_killed(subject: Subject, _: StopContainer | StopPodSandbox, fault: Fault) -> Iterator[Occurrence]:
    yield Occurrence(subject.pod, WARNING, "FailedKillPod", f"error killing pod: {fault.message}")


def _hook_began(subject: Subject, request: RunHook) -> Iterator[Occurrence]:
    if request.hook is Hook.PRE_STOP:  # it is the start of the stop
        yield from _stopping(subject, request)


def _hook_done(subject: Subject, request: RunHook, answer: Any) -> Iterator[Occurrence]:
    if not answer.succeeded:
        yield from _hook_failed(subject, request, Fault("", ""))


def _hook_failed(subject: Subject, request: RunHook, _: Fault) -> Iterator[Occurrence]:
    about = subject.container(request.name)
    if request.hook is Hook.POST_START:
        yield Occurrence(about, WARNING, FAILED_POST_START, "PostStartHook failed")
    elif request.hook is Hook.PRE_STOP:
        yield Occurrence(about, WARNING, FAILED_PRE_STOP, "PreStopHook failed")


def _not_mounted(subject: Subject, _: MountVolumes, fault: Fault) -> Iterator[Occurrence]:
    if fault.reason == VOLUME_ATTACHMENT_LIMIT_EXCEEDED:
        return  # the pod's rejection is told
    for message in _NEXT_VOLUME.split(fault.message):
        reason = "FailedMapVolume" if message.startswith(_OF_A_DEVICE) else "FailedMount"
        yield Occurrence(subject.pod, WARNING, reason, message)


def _not_prepared(subject: Subject, _: PrepareResources, fault: Fault) -> Iterator[Occurrence]:
    yield Occurrence(subject.pod, WARNING, FAILED_PREPARE_DYNAMIC_RESOURCES, fault.message)


def _not_given(subject: Subject, _: AllocateHardware, fault: Fault) -> Iterator[Occurrence]:
    if fault.reason == NOT_REGISTERED:  # the pod waits; for any other reason it is rejected, which is told
        yield Occurrence(subject.pod, WARNING, fault.reason, fault.message)


TABLE: Final[Mapping[type, Row]] = {
    AllocateHardware: Row(failed=_not_given),
    RunPodSandbox: Row(began=_sandbox_began, done=_sandbox_done, failed=_sandbox_failed),
    PullImage: Row(done=_pulled, failed=_not_pulled),
    StartContainer: Row(done=_started, failed=_not_started),
    StopContainer: Row(began=_stopping, failed=_not_killed),
    StopPodSandbox: Row(failed=_not_killed),
    RunHook: Row(began=_hook_began, done=_hook_done, failed=_hook_failed),
    MountVolumes: Row(failed=_not_mounted),
    PrepareResources: Row(failed=_not_prepared),
}


def go_duration(length: timedelta) -> str:
    """Format a duration as Go does, to the millisecond."""
    return format_duration(timedelta(milliseconds=round(length / timedelta(milliseconds=1))))
