"""The state of a standalone node's pods, while `up` and `down` wait for them.

Read from the node's pod cache (`proto/pod_snapshot.py`) and from `proto/refusals.py`; whether containers run is asked
over CRI, because a snapshot may be from before a reboot.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import yaml

from proto.cri.labels import POD_UID
from proto.cri.v1 import api_pb2 as cri
from proto.pod_snapshot import FINAL_PHASES, PodSnapshot, read_snapshots
from proto.refusals import BEING_ADMITTED, read_refusals
from proto.temporal.names import API_SOURCE
from worker.standalone.cri_client import CriClient

DEFAULT_GRACE: Final = 30  # seconds; the default of terminationGracePeriodSeconds
STARTING_REASONS: Final = frozenset({"", "ContainerCreating", "PodInitializing", "PredecessorPresent", "Terminating"})
"""Reasons of a pod that is starting normally."""


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest whose pod is awaited; `old` are the uids of its earlier versions."""

    path: Path
    old: Collection[str] = ()


@dataclass(frozen=True, slots=True)
class Pods:
    """The state of the pods of some manifests."""

    running: tuple[PodSnapshot, ...]
    finished: tuple[PodSnapshot, ...]
    waiting: Mapping[Path, str]
    """Pods that are starting normally, by manifest."""
    failing: Mapping[Path, str]
    """Pods with a reason why they do not run; the node keeps trying."""
    refused: Mapping[Path, str]

    @property
    def missing(self) -> dict[Path, str]:
        """All pods that do not run, whatever the reason."""
        return {**self.refused, **self.failing, **self.waiting}


def look(root_dir: Path, manifests: Iterable[Manifest], runtime: CriClient) -> Pods:
    """Compare the manifests with what runs."""
    refusals = {refusal.path: refusal for refusal in read_refusals(root_dir)}
    snapshots = [snapshot for snapshot in read_snapshots(root_dir) if not snapshot.deleting]
    alive = _running_containers(runtime)
    running, finished = [], []
    waiting: dict[Path, str] = {}
    failing: dict[Path, str] = {}
    refused: dict[Path, str] = {}
    for manifest in manifests:
        path = str(manifest.path)
        found = [one for one in snapshots if one.path == path and one.uid not in manifest.old]
        if refusal := refusals.get(path):
            missing = waiting if refusal.reason == BEING_ADMITTED else refused
            missing[manifest.path] = f"{manifest.path.name}: {refusal.message}"
        elif not found:
            waiting[manifest.path] = f"{manifest.path.name} has no pod yet"
        elif found[0].phase in FINAL_PHASES:
            finished.append(found[0])
        elif found[0].phase == "Running" and found[0].ready and _is_alive(found[0], alive):
            running.append(found[0])
        else:
            missing = failing if shows_failure(found[0]) else waiting
            missing[manifest.path] = in_words(found[0])
    return Pods(tuple(running), tuple(finished), waiting, failing, refused)


def shows_failure(snapshot: PodSnapshot) -> bool:
    """Report whether a pod shows why it does not run; a container's last exit is not a reason."""
    statuses = [one for name in ("initContainerStatuses", "containerStatuses") for one in snapshot.status.get(name, ())]
    states = [one.get(when, {}) for one in statuses for when in ("state", "lastState")]
    ends = {state["terminated"].get("reason", "") for state in states if "terminated" in state}
    return snapshot.reason not in STARTING_REASONS | ends


def pods_left(root_dir: Path, runtime: CriClient, *, shared: bool) -> list[str]:
    """List the pods that are not gone yet: those of the cache, and their sandboxes.

    In a `shared` runtime only sandboxes of pods that this node knows count. Pods of an API server are not counted: they
    are not this node's to stop, and end with the runtime.
    """
    snapshots = read_snapshots(root_dir)
    of_api = {snapshot.uid for snapshot in snapshots if snapshot.source == API_SOURCE}
    known = uids_of_node(root_dir)
    left = {one.uid: f"{one.namespace}/{one.name}" for one in snapshots if one.uid not in of_api}
    for sandbox in runtime.sandboxes():
        uid = sandbox.labels.get(POD_UID, sandbox.id)
        if uid not in of_api and (not shared or uid in known):
            left.setdefault(uid, f"{sandbox.metadata.namespace}/{sandbox.metadata.name}")
    return sorted(left.values())


def uids_of_node(root_dir: Path) -> set[str]:
    """List the uids of pods that have a folder on this node."""
    pods = root_dir / "pods"
    return {path.name for path in pods.iterdir()} if pods.is_dir() else set()


def longest_grace(manifests: Iterable[Path]) -> int:
    """Read the longest grace period of some manifests, in seconds; unreadable ones count as the default."""
    longest = 0
    for path in manifests:
        try:
            spec = yaml.load(path.read_bytes(), yaml.CSafeLoader)["spec"]
            longest = max(longest, int(spec.get("terminationGracePeriodSeconds", DEFAULT_GRACE)))
        except (OSError, yaml.YAMLError, KeyError, TypeError, ValueError, AttributeError):
            longest = max(longest, DEFAULT_GRACE)
    return longest


def in_words(snapshot: PodSnapshot) -> str:
    """Describe a pod's state with its reason."""
    why = ": ".join(word for word in (snapshot.reason, snapshot.message) if word)
    return f"{snapshot.namespace}/{snapshot.name} is {snapshot.phase}{f' ({why})' if why else ''}"


def _running_containers(runtime: CriClient) -> set[str]:
    state = cri.ContainerStateValue(state=cri.ContainerState.CONTAINER_RUNNING)
    request = cri.ListContainersRequest(filter=cri.ContainerFilter(state=state))
    return {container.id for container in runtime.runtime.ListContainers(request, timeout=10).containers}


def _is_alive(snapshot: PodSnapshot, alive: set[str]) -> bool:
    started = [one.container_id for one in snapshot.containers.values() if one.state == "CONTAINER_RUNNING"]
    return bool(started) and all(container_id in alive for container_id in started)
