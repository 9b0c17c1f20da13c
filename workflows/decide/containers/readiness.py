"""When a container counts as started and as ready.

Without probes, a running container is both (pkg/kubelet/prober/prober_manager.go UpdatePodStatus). A probe without a
verdict counts as failed.
"""

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_probe import V1Probe

from proto.temporal.pod import ContainerFacts, ContainerState, ProbeKind
from workflows.decide.hooks import hooks
from workflows.decide.situation import Situation


def is_started(situation: Situation, container: V1Container, *, as_it_ran: bool = False) -> bool:
    """Report whether the newest instance runs, its postStart hook succeeded and its startup probe succeeded.

    With `as_it_ran`, report whether that was so until it ended.
    """
    facts = situation.facts(container.name)
    if not as_it_ran and (facts.state is not ContainerState.RUNNING or facts.exit is not None):
        return False
    if not hooks.is_past_post_start(situation, container):
        return False
    return container.startup_probe is None or succeeded(facts, ProbeKind.STARTUP)


def is_ready(situation: Situation, container: V1Container, *, as_it_ran: bool = False) -> bool:
    """Report whether a container is ready; for containers that are to keep running."""
    if not is_started(situation, container, as_it_ran=as_it_ran):
        return False
    return container.readiness_probe is None or succeeded(situation.facts(container.name), ProbeKind.READINESS)


def succeeded(facts: ContainerFacts, kind: ProbeKind) -> bool:
    """Report whether a probe of the newest instance last succeeded."""
    found = facts.probes.get(kind)
    return found is not None and found.success


def probe_of(container: V1Container, kind: ProbeKind) -> V1Probe | None:
    """Look up a container's probe."""
    match kind:
        case ProbeKind.STARTUP:
            return container.startup_probe
        case ProbeKind.LIVENESS:
            return container.liveness_probe
        case ProbeKind.READINESS:
            return container.readiness_probe
