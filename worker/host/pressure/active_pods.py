"""The pods that evictions choose among, from the newest snapshots of their workflows."""

from collections.abc import Iterable
from dataclasses import dataclass

from proto.pod_snapshot import PodSnapshot, is_counted, is_terminating
from proto.temporal.eviction.candidates import Candidate
from workflows.decide.eviction.candidates import candidate


@dataclass(frozen=True, slots=True)
class ActivePod:
    """One of them."""

    workflow_id: str
    candidate: Candidate
    is_terminating: bool
    """It is being stopped already; an eviction can only shorten that."""


def active_pods(snapshots: Iterable[PodSnapshot], *, alone: bool) -> dict[str, ActivePod]:
    """Return the pods that may still hold resources, by uid (filterOutInactivePods); one whose spec is not known yet is left out."""
    found = {}
    for one in snapshots:
        if is_counted(one):
            found[one.uid] = ActivePod(one.workflow_id, candidate(one.pod, alone=alone), is_terminating(one))
    return found
