"""The CPUs that containers have to themselves, and the shared ones of all others: the kubelet's CPU manager.

The rules are pure (`workflows/decide/cpus/`). The state is on disk in the kubelet's own file, `<root-dir>/cpu_manager_state`, so that a
kubelet can be replaced by this node, and back. A file that does not suit the configuration or the machine refuses the start. If there is
none, running containers keep the CPUs that the runtime says they have for themselves.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import structlog

from activities.files.atomic_files import write_atomically
from activities.hardware.services import ContainerHardware, HardwareRefused
from proto.cri.runtime_container import RuntimeContainer
from proto.temporal.hardware.ledger import SMT_ALIGNMENT, UNEXPECTED, ContainerAssignment, PodAssignment
from proto.temporal.pod import PodJson
from worker.hardware.provider import Affinity, Hints
from worker.hardware.state_files import Left, kept_state, remedy
from worker.hardware.unread_containers import UnreadContainers
from worker.settings.hardware.cpu_manager import CpuManager
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.telemetry.kubelet.resource_managers import CpuManagerCounts, ResourceManagerCounts
from workflows.decide.cpus.cpu_sets import NONE, CpuListError, Cpus, parse_cpus, written_cpus
from workflows.decide.cpus.hints import container_hints, pod_hints
from workflows.decide.cpus.packed import CpusError
from workflows.decide.cpus.recovery import recovered
from workflows.decide.cpus.requests import pod_request
from workflows.decide.cpus.state_file import STATE_FILE, Containers, none_known, read_state, written_state
from workflows.decide.cpus.static_policy import (
    Assignments,
    SmtAlignmentError,
    StateError,
    StaticPolicy,
    allocate,
    begun,
    released,
)

_log: Final = structlog.get_logger(__name__)


class ExclusiveCpus:
    """Those of one machine."""

    def __init__(
        self, settings: CpuManager, policy: StaticPolicy, known: Assignments, file: Path, *, counts: CpuManagerCounts
    ) -> None:
        self._settings, self._policy, self._known, self._file = settings, policy, known, file
        self._counts = counts
        self._lost = set[tuple[str, str]]()
        """Containers whose CPUs are not all theirs any more, which was told once."""
        self.recovering: UnreadContainers | None = None
        """What is waited for, if the file was lost."""

    @property
    def shared(self) -> Cpus:
        """The CPUs of all containers that have none of their own."""
        return self._known.shared

    @property
    def known(self) -> Assignments:
        """Which CPUs belong to whom."""
        return self._known

    @property
    def policy(self) -> StaticPolicy:
        """The machine and the options."""
        return self._policy

    def keep(self, assigned: Mapping[str, PodAssignment], counting: Collection[str]) -> None:
        """Take what the ledger says; what only the file knows of pods that count stays, as far as nobody else has it."""
        told = {uid: given for uid, pod in assigned.items() if (given := self._still_theirs(uid, _cpus_of(pod)))}
        taken = NONE.union(*(cpus for given in told.values() for cpus in given.values()))
        for uid, had in self._known.containers.items():
            if uid not in told and uid in counting and not (NONE.union(*had.values()) & taken):
                told[uid] = dict(had)
        every = self._known.shared.union(*(self._known.of_pod(uid) for uid in self._known.containers))
        left = every.difference(*(cpus for given in told.values() for cpus in given.values()))
        self._known = replace(self._known, shared=left, containers=told)

    def _still_theirs(self, uid: str, given: Mapping[str, Cpus]) -> dict[str, Cpus]:
        """Leave out what this machine does not have any more, or reserves now: with it the file would refuse the next start.

        The ledger outlives the file, which an administrator deletes when CPUs or reservations change, as the refusal asks for.
        """
        found = {}
        for name, cpus in given.items():
            if left := cpus & self._policy.allocatable:
                found[name] = left
            if left != cpus and (uid, name) not in self._lost:
                self._lost.add((uid, name))
                _log.warning(
                    "a container has lost CPUs that are reserved or gone; make its pod anew to give it others",
                    podUID=uid,
                    container=name,
                    cpus=written_cpus(cpus - left),
                )
        return found

    def hints(self, pod: PodJson, container: str) -> Hints:
        """Return which NUMA nodes could give a container its CPUs."""
        found = container_hints(self._policy, self._known, pod_request(pod), container)
        return {} if found is None else {"cpu": found}

    def pod_hints(self, pod: PodJson) -> Hints:
        """Return which NUMA nodes could give a whole pod its CPUs."""
        found = pod_hints(self._policy, self._known, pod_request(pod))
        return {} if found is None else {"cpu": found}

    async def allocate(self, pod: PodJson, container: str, affinity: Affinity) -> None:
        """Give a container its CPUs; raises HardwareRefused."""
        asked = pod_request(pod)
        if not asked.named(container).cpus:
            return
        self._counts.asked()
        had, full_cores = self._known.of(asked.uid, container), self._policy.options.full_cores
        try:
            self._known = allocate(self._policy, self._known, asked, container, affinity=affinity.nodes)
        except CpusError as error:
            self._counts.refused(only_full_cores=full_cores)
            if isinstance(error, SmtAlignmentError):
                raise HardwareRefused(SMT_ALIGNMENT, str(error)) from None
            raise HardwareRefused(UNEXPECTED, f"Allocate failed due to {error}, which is unexpected") from None
        given = self._policy.topology.places.only(self._known.of(asked.uid, container) or NONE)
        is_in_one_cache = had is None and len(given.caches) == 1
        self._counts.given(only_full_cores=full_cores, is_in_one_cache=is_in_one_cache)

    def state(self) -> Assignments:
        """Return who has which CPUs."""
        return self._known

    def restore(self, state: Assignments) -> None:
        """Go back."""
        self._known = state

    def given(self, assignment: ContainerAssignment, pod_uid: str, container: str) -> ContainerAssignment:
        """Add a container's own CPUs."""
        return replace(assignment, cpus=written_cpus(self._known.of(pod_uid, container) or NONE))

    def why(self, pod: PodJson, container: str) -> str:
        """Say which CPUs a container has and where they are."""
        cpus = self._known.of(pod["metadata"]["uid"], container)
        if not cpus:
            return ""
        places = self._policy.topology.places.only(cpus)
        where = f"NUMA node {written_cpus(places.nodes)}, socket {written_cpus(places.sockets)}"
        return (
            f"container {container} has CPU {written_cpus(cpus)} to itself ({where}): the pod is Guaranteed and the container asks "
            f"for {len(cpus)} whole CPU{'' if len(cpus) == 1 else 's'}; {written_cpus(self._known.shared)} is shared"
        )

    def of(self, made: ContainerHardware, pod_uid: str, container: str) -> ContainerHardware:
        """Add the CPUs that a container may use: its own, or the shared ones."""
        own = self._known.of(pod_uid, container)
        is_quota_off = bool(own) and self._settings.is_quota_off
        return replace(made, cpuset_cpus=written_cpus(own or self._known.shared), is_quota_off=is_quota_off)

    def is_quota_off(self, pod_uid: str) -> bool:
        """Report whether no CFS quota throttles a pod, because a container of it has CPUs of its own."""
        return self._settings.is_quota_off and pod_uid in self._known.containers

    def recover(self, left: Sequence[RuntimeContainer]) -> None:
        """Take what the runtime says anew, if the file was lost."""
        if self.recovering:
            self._known = begun(self._policy, _recovered(self._policy, left))

    def started(self, pod_uid: str, container: str) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Free nothing: the CPUs of init containers are the next containers' or stay with the pod until it is over."""
        return False

    def has_lost(self, pod_uid: str, container: Mapping[str, Any]) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Report that nothing is lost that could be regained now."""
        return False

    async def regain(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Regain nothing."""

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Prepare nothing."""

    def release(self, uids: Collection[str]) -> bool:
        """Free the CPUs of pods that are over."""
        before = self._known
        for uid in uids:
            for container in list(self._known.containers.get(uid, ())):
                self._known = released(self._known, uid, container)
        return self._known is not before

    def holders(self) -> Collection[str]:
        """Return the uids of the pods that have CPUs of their own."""
        return tuple(self._known.containers)

    def save(self) -> None:
        """Write the file; raises OSError."""
        places = self._policy.topology.places
        given = NONE.union(*(self._known.of_pod(uid) for uid in self._known.containers))
        per_node = {node: len(places.in_nodes(node) & given) for node in sorted(places.nodes)}
        self._counts.show(len(self._policy.available(self._known)), per_node)
        if not (self.recovering and self.recovering.why):  # a lost file tells the next worker to ask the runtime
            write_atomically(self._file, written_state(self._settings.policy, self._known).encode())


def load_cpus(  # noqa: PLR0913 - most have defaults
    settings: CpuManager,
    root_dir: Path,
    counts: CpuManagerCounts | None = None,
    known_containers: Containers = none_known,
    *,
    left: Left = tuple,
    unread: UnreadContainers | None = None,
) -> ExclusiveCpus | None:
    """Read what an earlier process or a kubelet has left, and write the file anew; None with the policy none.

    `known_containers` is asked for a file of version 1, `left` if there is no file, which is not written while something is `unread`.
    Raises ConfigurationRefused in the kubelet's words, OSError, and what these two raise.
    """
    file, policy = root_dir / STATE_FILE, settings.static
    known = kept_state("CPU", file, partial(read_state, settings.policy, known=known_containers))
    if policy is None:
        if not file.exists():
            root_dir.mkdir(parents=True, exist_ok=True)
            write_atomically(file, written_state(settings.policy, Assignments()).encode())
        return None
    is_lost = known is None
    if known is None:
        known = _recovered(policy, left())
    counts = counts or ResourceManagerCounts().cpus
    try:
        cpus = ExclusiveCpus(settings, policy, begun(policy, known), file, counts=counts)
    except StateError as error:
        raise ConfigurationRefused(f"start cpu manager error: {error}{remedy(file)}") from error
    counts.begun()
    root_dir.mkdir(parents=True, exist_ok=True)
    cpus.recovering = unread if is_lost else None
    cpus.save()
    return cpus


def _recovered(policy: StaticPolicy, left: Sequence[RuntimeContainer]) -> Assignments:
    found = recovered(policy, left)
    for uid, containers in found.assignments.containers.items():
        for name, cpus in containers.items():
            _log.info("a container keeps its CPUs", podUID=uid, container=name, cpus=written_cpus(cpus))
    for why in found.ignored:
        _log.warning("a container does not keep its CPUs", why=why)
    return found.assignments


def _cpus_of(pod: PodAssignment) -> dict[str, Cpus]:
    found = {}
    for name, given in pod.containers.items():
        try:
            cpus = parse_cpus(given.cpus)
        except CpuListError:
            continue
        if cpus:
            found[name] = cpus
    return found
