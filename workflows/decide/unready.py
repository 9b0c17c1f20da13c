"""What keeps a container that runs from counting as started or ready, in words; asked by `explain`."""

from kubernetes.client.models.v1_container import V1Container

from proto.temporal.pod import ProbeKind
from workflows.decide.containers import Standing, standing
from workflows.decide.probes import probe_of
from workflows.decide.readiness import is_ready, succeeded
from workflows.decide.situation import Situation


def unready_words(situation: Situation, container: V1Container) -> str:
    """Say why it is not ready; empty for one that is, and for one that does not run or is not meant to be."""
    if standing(situation, container) is not Standing.UP or is_ready(situation, container):
        return ""
    facts = situation.facts(container.name)
    for kind in (ProbeKind.STARTUP, ProbeKind.READINESS):
        if probe_of(container, kind) and not succeeded(facts, kind):
            found = facts.probes.get(kind)
            what = f"fails: {found.message}" if found else "has not come to a verdict"
            return f"{container.name} runs and is not ready: its {kind.value} probe {what}"
    return f"{container.name} runs and has not started yet"
