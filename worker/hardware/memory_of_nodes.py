"""The memory of NUMA nodes that containers have to themselves: the kubelet's memory manager.

The rules are pure (`workflows/decide/memory_nodes/`). The state is on disk in the kubelet's own file,
`<root-dir>/memory_manager_state`, so that a kubelet can be replaced by this node, and back. A file that does not suit the
configuration or the machine refuses the start. If there is none, containers keep the memory that the runtime says they have.
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
from proto.kubernetes.resources.quantity import bytes_quantity
from proto.temporal.hardware.ledger import UNEXPECTED, ContainerAssignment, MemoryBlock, PodAssignment
from proto.temporal.pod import PodJson
from worker.hardware.provider import Affinity, Hints
from worker.hardware.state_files import Left, kept_state, remedy
from worker.hardware.unread_containers import UnreadContainers
from worker.settings.hardware.memory_manager import MemoryManager
from worker.settings.kubelet.configuration import ConfigurationRefused
from worker.telemetry.kubelet.resource_managers import MemoryManagerCounts, ResourceManagerCounts
from workflows.decide.cpus.cpu_sets import written_cpus
from workflows.decide.memory_nodes.amounts import Assignments, Block, Blocks, Machine, with_block
from workflows.decide.memory_nodes.hints import container_hints, pod_hints
from workflows.decide.memory_nodes.recovery import recovered, why_not
from workflows.decide.memory_nodes.requests import MemoryNodesError, PodRequest, pod_request
from workflows.decide.memory_nodes.reservations import STATIC
from workflows.decide.memory_nodes.state_file import STATE_FILE, read_state, written_state
from workflows.decide.memory_nodes.static_policy import StateError, allocate, begun, begun_with_other_sizes, released

_log: Final = structlog.get_logger(__name__)


class MemoryOfNodes:
    """That of one machine."""

    def __init__(self, known: Assignments, file: Path, counts: MemoryManagerCounts) -> None:
        self._known, self._file, self._counts = known, file, counts
        self._pods: dict[str, PodRequest] = {}
        """The pods that were given memory since the start, by uid."""
        self._lost = set[tuple[str, str]]()
        """Containers that do not keep their memory, which was told once."""
        self.recovering: tuple[Machine, UnreadContainers] | None = None
        """The machine without containers, and what is waited for, if the file was lost."""

    @property
    def known(self) -> Assignments:
        """Which memory belongs to whom."""
        return self._known

    def keep(self, assigned: Mapping[str, PodAssignment], counting: Collection[str]) -> None:
        """Take what the ledger says; what only the file knows of pods that count stays.

        Of a pod that both know the file has less: its init containers have ended.
        """
        told = {uid: given for uid, pod in assigned.items() if (given := _blocks_of(pod, self._known.machine))}
        for uid, had in list(self._known.containers.items()):
            if uid in told and had.items() <= told[uid].items():
                del told[uid]
            elif uid in told or uid not in counting:
                self._known = released(self._known, uid, list(had))
        self._lost = {(uid, name) for uid, name in self._lost if uid in assigned}
        for uid, given in told.items():
            for name, blocks in given.items():
                self._give_again(uid, name, blocks)

    def _give_again(self, uid: str, name: str, blocks: Blocks) -> None:
        """Take what the ledger says of a container, unless nodes reserve more than they did, or have less: then the file would refuse the next start.

        The ledger outlives the file, which an administrator deletes when reservations change, as the refusal asks for.
        """
        machine = self._known.machine
        for block in blocks:
            if why := why_not(machine, block.nodes, {block.resource: block.size}):
                if (uid, name) not in self._lost:
                    self._lost.add((uid, name))
                    _log.warning("a container does not keep its memory", podUID=uid, container=name, why=why)
                return
            machine = with_block(machine, block)
        self._known = replace(self._known.with_blocks(uid, name, blocks), machine=machine)

    def hints(self, pod: PodJson, container: str) -> Hints:
        """Return which NUMA nodes could give a container its memory."""
        return container_hints(self._known, pod_request(pod), container)

    def pod_hints(self, pod: PodJson) -> Hints:
        """Return which NUMA nodes could give a whole pod its memory."""
        return pod_hints(self._known, pod_request(pod))

    async def allocate(self, pod: PodJson, container: str, affinity: Affinity) -> None:
        """Give a container its memory; raises HardwareRefused."""
        request = pod_request(pod)
        if not request.is_pinned:
            return
        self._counts.asked()
        try:
            self._known = allocate(self._known, request, container, affinity)
        except MemoryNodesError as error:
            self._counts.refused()
            raise HardwareRefused(UNEXPECTED, f"Allocate failed due to {error}, which is unexpected") from None
        self._pods[request.uid] = request

    def state(self) -> Assignments:
        """Return who has which memory."""
        return self._known

    def restore(self, state: Assignments) -> None:
        """Go back."""
        self._known = state

    def given(self, assignment: ContainerAssignment, pod_uid: str, container: str) -> ContainerAssignment:
        """Add a container's own memory."""
        blocks = self._known.of(pod_uid, container) or ()
        return replace(assignment, memory=tuple(MemoryBlock(one.resource, one.nodes, one.size) for one in blocks))

    def why(self, pod: PodJson, container: str) -> str:
        """Say how much memory of which NUMA nodes a container has."""
        uid = pod["metadata"]["uid"]
        sizes = pod_request(pod).named(container).amounts
        if not self._known.of(uid, container) or not sizes:
            return ""
        amounts = ", ".join(f"{bytes_quantity(size)} {resource}" for resource, size in sizes.items() if size)
        nodes = written_cpus(self._known.nodes_of(uid, container))
        return f"container {container} has its memory from NUMA node {nodes} ({amounts}): the pod is Guaranteed"

    def of(self, made: ContainerHardware, pod_uid: str, container: str) -> ContainerHardware:
        """Add the NUMA nodes whose memory a container may use; all, if it has none of its own."""
        return replace(made, cpuset_mems=written_cpus(self._known.nodes_of(pod_uid, container)))

    def is_quota_off(self, pod_uid: str) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Report that quotas apply."""
        return False

    def recover(self, left: Sequence[RuntimeContainer]) -> None:
        """Take what the runtime says anew, if the file was lost."""
        if self.recovering:
            idle, _ = self.recovering
            self._known = begun(idle, _recovered(idle, left))

    def started(self, pod_uid: str, container: str) -> bool:
        """Free what init containers have that ended before a container starts."""
        pod = self._pods.get(pod_uid)
        before = self._known
        if pod is not None and any(one.name == container for one in pod.containers):
            had = self._known.containers.get(pod_uid, {})
            self._known = released(self._known, pod_uid, [one for one in pod.ended_before(container) if one in had])
        return self._known is not before

    def has_lost(self, pod_uid: str, container: Mapping[str, Any]) -> bool:  # noqa: ARG002 - the Protocol's signature
        """Report that nothing is lost that could be regained now."""
        return False

    async def regain(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Regain nothing."""

    async def starting(self, pod_uid: str, container: Mapping[str, Any]) -> None:
        """Prepare nothing."""

    def release(self, uids: Collection[str]) -> bool:
        """Free the memory of pods that are over."""
        before = self._known
        for uid in uids:
            self._pods.pop(uid, None)
            self._known = released(self._known, uid, list(self._known.containers.get(uid, ())))
        return self._known is not before

    def holders(self) -> Collection[str]:
        """Return the uids of the pods that have memory of their own."""
        return tuple(self._known.containers)

    def save(self) -> None:
        """Write the file; raises OSError."""
        if not (self.recovering and self.recovering[1].why):  # a lost file tells the next worker to ask the runtime
            write_atomically(self._file, written_state(STATIC, self._known).encode())


def load_memory(
    settings: MemoryManager,
    root_dir: Path,
    counts: MemoryManagerCounts | None = None,
    *,
    left: Left = tuple,
    unread: UnreadContainers | None = None,
) -> MemoryOfNodes | None:
    """Read what an earlier process or a kubelet has left, and write the file anew; None with the policy None.

    `left` is asked if there is no file, which is not written while something is `unread`. Raises ConfigurationRefused in the kubelet's words, OSError, and what `left` raises.
    """
    file = root_dir / STATE_FILE
    known = kept_state("memory", file, partial(read_state, settings.policy))
    if settings.idle is None:
        if not file.exists():
            root_dir.mkdir(parents=True, exist_ok=True)
            write_atomically(file, written_state(settings.policy, Assignments()).encode())
        return None
    is_lost = known is None
    if known is None:
        known = _recovered(settings.idle, left())
    try:
        known = begun(settings.idle, known)
    except StateError as error:
        moved = begun_with_other_sizes(settings.idle, known)
        if moved is None:
            raise ConfigurationRefused(f"start memory manager error: {error}{remedy(file)}") from error
        _log.warning("NUMA nodes have more or less memory than before; all that containers were given still fits")
        known = moved
    memory = MemoryOfNodes(known, file, counts or ResourceManagerCounts().memory)
    root_dir.mkdir(parents=True, exist_ok=True)
    memory.recovering = (settings.idle, unread) if is_lost and unread else None
    memory.save()
    return memory


def _recovered(idle: Machine, left: Sequence[RuntimeContainer]) -> Assignments:
    found = recovered(idle, left)
    for uid, containers in found.assignments.containers.items():
        for name in containers:
            nodes = written_cpus(found.assignments.nodes_of(uid, name))
            _log.info("a container keeps its memory", podUID=uid, container=name, nodes=nodes)
    for why in found.ignored:
        _log.warning("a container does not keep its memory", why=why)
    return found.assignments


def _blocks_of(pod: PodAssignment, machine: Machine) -> dict[str, Blocks]:
    """Read the ledger; what the machine does not have any more is left out."""
    found = {}
    for name, given in pod.containers.items():
        blocks = tuple(Block(tuple(one.nodes), one.kind, one.size_bytes) for one in given.memory)
        if blocks and all(node in machine for one in blocks for node in one.nodes):
            found[name] = blocks
    return found
