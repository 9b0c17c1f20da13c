"""A pod's conditions (pkg/kubelet/status/generate.go), with the times at which they last changed.

The times are in `Observed.condition_times`. `settle` records them after each decision, so that a query or a replay
reports the same times.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from kubernetes.client.models.v1_container_status import V1ContainerStatus
from kubernetes.client.models.v1_pod_condition import V1PodCondition

from proto.temporal.pod import ContainerState, Observed
from proto.temporal.resources import RESIZE_IN_PROGRESS, RESIZE_PENDING
from workflows.decide.containers.init_containers import is_sidecar
from workflows.decide.containers.restart_all import restart_all_triggers
from workflows.decide.keys import RESOURCES_KEY
from workflows.decide.resources.allocation import in_progress
from workflows.decide.situation import Situation
from workflows.decide.status import gates
from workflows.decide.status.phase import TERMINAL, Phase

POD_COMPLETED: Final = "PodCompleted"
POD_FAILED: Final = "PodFailed"
DISRUPTION_TARGET: Final = "DisruptionTarget"
TERMINATION_BY_KUBELET: Final = "TerminationByKubelet"
"""k8s.io/api core/v1 PodReasonTerminationByKubelet; shown once nothing runs any more (status_manager.go mergePodStatus)."""
PREEMPTED: Final = "Pod was preempted by Kubelet to accommodate a critical pod."
"""Its message after a preemption; else that is the pod's own."""
NETWORK_READY: Final = "PodReadyToStartContainers"
INITIALIZED: Final = "Initialized"
READY: Final = "Ready"
CONTAINERS_READY: Final = "ContainersReady"
GATES_NOT_READY: Final = "ReadinessGatesNotReady"


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a condition is true, and if not, why."""

    holds: bool
    reason: str | None = None
    message: str | None = None
    generation: int | None = None
    """The metadata.generation that it is about, if that is not the current one."""


def conditions(
    situation: Situation, init: list[V1ContainerStatus], regular: list[V1ContainerStatus], phase: Phase
) -> list[V1PodCondition]:
    """Build every condition: first those that others set, then the kubelet's in its order."""
    own = [
        V1PodCondition(
            type=name,
            observed_generation=verdict.generation or situation.generation,
            status=truth(verdict.holds),
            reason=verdict.reason,
            message=verdict.message,
            last_transition_time=since(situation, name, holds=verdict.holds),
        )
        for name, verdict in verdicts(situation, init, regular, phase)
    ]
    return [*gates.given(situation.observed), *own]


def verdicts(
    situation: Situation, init: list[V1ContainerStatus], regular: list[V1ContainerStatus], phase: Phase
) -> Iterator[tuple[str, Verdict]]:
    """Judge each condition."""
    sandbox = situation.observed.sandbox
    has_network = bool(sandbox and sandbox.ready and (sandbox.ips or situation.spec.host_network))
    eviction = situation.observed.eviction
    given = situation.observed.given_conditions
    is_over = phase is Phase.FAILED or (phase is Phase.SUCCEEDED and eviction is not None and eviction.may_succeed)
    if eviction and eviction.disrupts and DISRUPTION_TARGET not in given and is_over:
        message = PREEMPTED if eviction.preempted_for else eviction.message
        yield DISRUPTION_TARGET, Verdict(holds=True, reason=TERMINATION_BY_KUBELET, message=message)
    through = initialized(situation, init, phase)
    yield NETWORK_READY, Verdict(has_network)
    yield INITIALIZED, through
    sidecars = [one for one in init if is_sidecar(situation, one.name)]
    all_ready = containers_ready([*sidecars, *regular], phase)
    known = {NETWORK_READY: has_network, INITIALIZED: through.holds}
    yield READY, pod_ready(situation, all_ready, {name: truth(holds) for name, holds in known.items()})
    yield CONTAINERS_READY, all_ready
    yield "PodScheduled", Verdict(holds=True)
    if situation.restart_all:
        yield "AllContainersRestarting", all_restarting(situation, phase)
    if phase not in TERMINAL:
        yield from resizing(situation)


def resizing(situation: Situation) -> Iterator[tuple[str, Verdict]]:
    """Judge the conditions of a pending resize and of one in progress (status_manager.go podResizeConditions)."""
    observed = situation.observed
    if pending := observed.resize_pending:
        yield (
            RESIZE_PENDING,
            Verdict(holds=True, reason=pending.reason, message=pending.message, generation=pending.generation),
        )
    if (resize := observed.resize) and in_progress(situation, resize):
        failures = [failure for key, failure in observed.failures.items() if key.startswith(RESOURCES_KEY)]
        error = max(failures, key=lambda one: one.at, default=None)
        verdict = Verdict(holds=True, generation=resize.generation)
        yield RESIZE_IN_PROGRESS, replace(verdict, reason="Error", message=error.message) if error else verdict


def all_restarting(situation: Situation, phase: Phase) -> Verdict:
    """Report whether all containers are being restarted because a restart rule matched."""
    if phase is Phase.SUCCEEDED:
        return Verdict(holds=False, reason=POD_COMPLETED)
    if phase is Phase.FAILED:
        return Verdict(holds=False, reason=POD_FAILED)
    if not restart_all_triggers(situation):
        return Verdict(holds=False)
    return Verdict(
        holds=True, reason="RestartAllContainersStarted", message="container exited with restart policy rule"
    )


def initialized(situation: Situation, init: list[V1ContainerStatus], phase: Phase) -> Verdict:
    """Report whether initialization is complete; it stays so once a regular container has run."""
    if phase is Phase.SUCCEEDED:
        return Verdict(holds=True, reason=POD_COMPLETED)
    if any(
        facts.state in (ContainerState.RUNNING, ContainerState.EXITED)
        for one in situation.containers
        if (facts := situation.facts(one.name)).container_id
    ):
        return Verdict(holds=True)
    if (known := situation.observed.condition_times.get(INITIALIZED)) and known[0] == "True":
        return Verdict(holds=True)  # initialization stays complete, also while all containers are restarted
    incomplete = [one.name for one in init if not (one.started if is_sidecar(situation, one.name) else one.ready)]
    if incomplete:
        return Verdict(
            holds=False,
            reason="ContainersNotInitialized",
            message=f"containers with incomplete status: [{' '.join(incomplete)}]",
        )
    return Verdict(holds=True)


def containers_ready(lasting: list[V1ContainerStatus], phase: Phase) -> Verdict:
    """Report whether every container that is to keep running is ready; sidecars first, in the kubelet's order."""
    match phase:
        case Phase.SUCCEEDED:
            return Verdict(holds=False, reason=POD_COMPLETED)
        case Phase.FAILED:
            return Verdict(holds=False, reason=POD_FAILED)
        case _:
            return all_ready_but([one.name for one in lasting if not one.ready])


def all_ready_but(unready: Sequence[str]) -> Verdict:
    """Report whether every container is ready, given those that are not."""
    if not unready:
        return Verdict(holds=True)
    message = f"containers with unready status: [{' '.join(unready)}]"
    return Verdict(holds=False, reason="ContainersNotReady", message=message)


def pod_ready(situation: Situation, all_ready: Verdict, known: dict[str, str]) -> Verdict:
    """Report whether the pod is ready: its containers are ready and every readiness gate's condition is True."""
    if not all_ready.holds:
        return all_ready
    asked = [gate.condition_type for gate in situation.spec.readiness_gates or ()]
    return gates_open(asked, known | {one.type: one.status for one in gates.given(situation.observed)})


def gates_open(asked: Sequence[str], known: Mapping[str, str]) -> Verdict:
    """Report whether every readiness gate is True; `known` has the status of every condition."""
    unmet = list(gates.unmet(asked, known))
    return Verdict(holds=False, reason=GATES_NOT_READY, message=", ".join(unmet)) if unmet else Verdict(holds=True)


def truth(holds: bool) -> str:  # noqa: FBT001 - its only parameter
    """Write a condition's status."""
    return "True" if holds else "False"


def since(situation: Situation, name: str, *, holds: bool) -> datetime:
    """Return when a condition took its current value."""
    known = situation.observed.condition_times.get(name)
    if known and known[0] == truth(holds):
        return known[1]
    return situation.now


def settle(observed: Observed, settled: list[V1PodCondition]) -> None:
    """Remember when each of the kubelet's conditions took its value."""
    observed.condition_times = {
        one.type: (one.status, one.last_transition_time)
        for one in settled
        if one.last_transition_time and one.type not in observed.given_conditions
    }
