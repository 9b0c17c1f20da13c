"""When a container counts as started and as ready: the two answers that others wait for.

Asked by `container_status`. Without probes a container that runs is both (pkg/kubelet/prober/prober_manager.go
UpdatePodStatus).
"""

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.pod import ContainerState
from workflows.decide.situation import Situation


def is_started(situation: Situation, container: V1Container) -> bool:
    """Say whether the newest instance runs."""
    facts = situation.facts(container.name)
    return facts.state is ContainerState.RUNNING and facts.exit is None


def is_ready(situation: Situation, container: V1Container) -> bool:
    """Say whether others may count on it; asked of containers that are to keep running."""
    return is_started(situation, container)
