"""A pod's status as the API shows it, and its summary.

Built after each decision and never stored: `Observed` holds the facts, the status says what they mean
(pkg/kubelet/kubelet_pods.go generateAPIPodStatus).
"""

from dataclasses import dataclass, replace

from kubernetes.client.models.v1_container_status import V1ContainerStatus
from kubernetes.client.models.v1_host_ip import V1HostIP
from kubernetes.client.models.v1_pod_ip import V1PodIP
from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.kubernetes.admission import REJECTED_PREFIX
from proto.kubernetes.resources.qos import qos_class
from proto.temporal.activities.requests import RunPodSandbox, StartContainer
from proto.temporal.failure_types import PREDECESSOR_PRESENT, STEP_TIMED_OUT
from proto.temporal.pod import Failure, Lifecycle, Observed
from workflows.decide.keys import CLAIMS_KEY, SANDBOX_KEY, VOLUMES_KEY
from workflows.decide.situation import Situation
from workflows.decide.status.conditions import GATES_NOT_READY, READY, conditions
from workflows.decide.status.container_status import (
    CONTAINER_CREATING,
    POD_INITIALIZING,
    container_status,
    ephemeral_status,
)
from workflows.decide.status.phase import TERMINAL, Phase, pod_phase
from workflows.decide.status.pod_level_status import allocated_resources, pod_resources_shown
from workflows.decide.volumes.mounts import to_mount

ORDINARY_WAITS = (CONTAINER_CREATING, POD_INITIALIZING)


@dataclass(frozen=True, slots=True)
class PodSummary:
    """The columns of a pod in a table, and what the search attributes say of it."""

    phase: str = "Pending"
    ready: bool = False
    restarts: int = 0
    reason: str = ""
    message: str = ""


def pod_status(situation: Situation) -> V1PodStatus:
    """Build the status of a pod."""
    observed = situation.observed
    init = [container_status(situation, one) for one in situation.init_containers]
    regular = [container_status(situation, one) for one in situation.containers]
    ephemeral = [ephemeral_status(situation, one) for one in situation.ephemeral_containers]
    phase = pod_phase(situation, init, regular)
    if observed.lifecycle is Lifecycle.TERMINATED and phase not in TERMINAL:
        phase = Phase.FAILED
    host_ips = situation.settings.host_ips
    ips = observed.sandbox.ips if observed.sandbox else ()
    if situation.spec.host_network and observed.sandbox:
        ips = host_ips
    why = (observed.ended or observed.eviction) if phase is Phase.FAILED else None
    # a rejected pod shows nothing else (rejectPod)
    shown = why is None or not why.message.startswith(REJECTED_PREFIX)
    return V1PodStatus(
        phase=phase.value,
        observed_generation=situation.generation,
        reason=(why.reason or None) if why else None,
        message=(why.message or None) if why else None,
        conditions=conditions(situation, init, regular, phase),
        init_container_statuses=init if init and shown else None,
        container_statuses=regular if shown else [],
        ephemeral_container_statuses=ephemeral or None,
        host_ip=host_ips[0] if host_ips else None,
        host_ips=[V1HostIP(ip=ip) for ip in host_ips] or None,
        pod_ip=ips[0] if ips else None,
        pod_ips=[V1PodIP(ip=ip) for ip in ips] or None,
        qos_class=qos_class(situation.source).value,
        start_time=observed.started_at,
        allocated_resources=allocated_resources(situation.source),
        resources=pod_resources_shown(situation.source),
    )


def pod_summary(situation: Situation, status: V1PodStatus) -> PodSummary:
    """Build the row of `tempolet pods`; the most urgent reason comes first."""
    statuses = [*(status.init_container_statuses or []), *(status.container_statuses or [])]
    readiness = next((one for one in status.conditions or [] if one.type == READY), None)
    reason, message = first_reason(situation, statuses)
    ready = readiness is not None and readiness.status == "True"
    if readiness and readiness.reason == GATES_NOT_READY and situation.observed.lifecycle is Lifecycle.SYNC:
        reason, message = GATES_NOT_READY, readiness.message or ""
    restarts = sum(one.restart_count for one in statuses)
    return PodSummary(status.phase or "", ready, restarts, reason, message)


def announced_summary(line: PodSummary) -> PodSummary:
    """Return what the search attributes say of a pod: an ordinary wait is no reason, and the message is left out."""
    return replace(line, reason="" if line.reason in ORDINARY_WAITS else line.reason, message="")


def hangs(observed: Observed) -> str:
    """Describe a step that gave no answer within its limit the last time; empty if none."""
    return next((one.message for one in observed.failures.values() if one.reason == STEP_TIMED_OUT), "")


def failed_step(situation: Situation) -> Failure | None:
    """Return why the pod has no sandbox, claims, volumes or directories; else which step hangs."""
    failures = situation.observed.failures
    if situation.observed.lifecycle is Lifecycle.SYNC and not to_mount(situation)["spec"].get("volumes"):
        # a mount of volumes that nothing uses may have failed before the run took up behaviour 6: nothing tries it again
        failures = {name: one for name, one in failures.items() if name != VOLUMES_KEY}
    urgent = (failures.get(name) for name in (SANDBOX_KEY, CLAIMS_KEY, VOLUMES_KEY, "directories"))
    hanging = (one for one in failures.values() if one.reason == STEP_TIMED_OUT)
    return next((one for one in (*urgent, *hanging) if one), None)


def held_up(situation: Situation) -> str:
    """Describe what a terminating pod waits for: a step that hangs, or a start under way, which must answer first."""
    if hanging := hangs(situation.observed):
        return f"; {hanging}"
    if situation.observed.lifecycle is not Lifecycle.TERMINATING:
        return ""
    for action in situation.busy.values():
        match action:
            case RunPodSandbox():
                return "; waits until its sandbox is made, or given up after a few seconds"
            case StartContainer(container=container):
                return f"; waits until {container['name']} is started, or given up after a few seconds"
    return ""


def first_reason(situation: Situation, statuses: list[V1ContainerStatus]) -> tuple[str, str]:
    """Return why the pod is not simply running; for a running one, how a container last ended."""
    observed = situation.observed
    if observed.deletion and observed.lifecycle is not Lifecycle.TERMINATED:
        return "Terminating", f"{observed.deletion.reason}: {observed.deletion.message}{held_up(situation)}"
    if observed.eviction:
        return observed.eviction.reason, observed.eviction.message + held_up(situation)
    if observed.waiting_for:
        return PREDECESSOR_PRESENT, observed.waiting_for
    if failed := failed_step(situation):
        return failed.reason, failed.message
    waits = [one.state.waiting for one in statuses if one.state and one.state.waiting]
    for wait in waits:
        if wait.reason not in ORDINARY_WAITS:
            return wait.reason or "", wait.message or ""
    ends = [end for one in statuses for state in (one.state, one.last_state) if state and (end := state.terminated)]
    worth_telling = [end for end in ends if end.exit_code != 0 or end.reason != "Completed"]
    if worth_telling:
        last = max(worth_telling, key=lambda end: end.finished_at or situation.now)
        return last.reason or "", last.message or f"exit code {last.exit_code}"
    if waits:
        return waits[0].reason or "", ""
    return "Completed" if ends and len(ends) == len(statuses) else "", ""
