"""Why a running container, or a pod whose containers are ready, is not ready; used by explain."""

from collections.abc import Iterator

from kubernetes.client.models.v1_container import V1Container
from kubernetes.client.models.v1_pod_status import V1PodStatus

from proto.temporal.operator import Sentence, SentenceKind
from proto.temporal.pod import Lifecycle, ProbeKind
from workflows.decide.containers.readiness import is_ready, probe_of, succeeded
from workflows.decide.containers.standing import Standing, standing
from workflows.decide.situation import Situation
from workflows.decide.status import gates
from workflows.decide.status.conditions import GATES_NOT_READY, READY


def unready_words(situation: Situation, container: V1Container) -> str:
    """Explain why a container is not ready; empty if it is, or if it does not run or need not be ready."""
    if standing(situation, container) is not Standing.UP or is_ready(situation, container):
        return ""
    facts = situation.facts(container.name)
    for kind in (ProbeKind.STARTUP, ProbeKind.READINESS):
        if probe_of(container, kind) and not succeeded(facts, kind):
            found = facts.probes.get(kind)
            what = f"fails: {found.message}" if found else "has no verdict yet"
            return f"{container.name} runs and is not ready: its {kind.value} probe {what}"
    return f"{container.name} runs and has not started yet"


def waits_for_gates(situation: Situation, status: V1PodStatus) -> Iterator[Sentence]:
    """Name the readiness gates that keep a pod from being ready although its containers are."""
    ready = next((one for one in status.conditions or () if one.type == READY), None)
    if situation.observed.lifecycle is not Lifecycle.SYNC or ready is None or ready.reason != GATES_NOT_READY:
        return
    gate = next(gates.settable(situation), "")
    remedy = f"`tempolet condition {situation.key} {gate}=True` opens one" if gate else ""
    yield Sentence(SentenceKind.HELD, f"Ready waits for a readiness gate: {ready.message}", remedy=remedy)
