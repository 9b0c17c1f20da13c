"""Machines and pods for the tests of memory by NUMA node."""

from typing import Final

from workflows.decide.memory_nodes.amounts import Assignments
from workflows.decide.memory_nodes.requests import ContainerRequest, PodRequest
from workflows.decide.memory_nodes.static_policy import NodeMemory, begun, idle_machine

GIB: Final = 2**30
PAGES: Final = "hugepages-1Gi"


def machine(nodes: int = 2, *, pages: int = 0) -> Assignments:
    """Make an idle machine with 8 GiB a node, huge pages among them, of which node 0 reserves one."""
    huge = {GIB: pages} if pages else {}
    every = {node: NodeMemory(8 * GIB, huge) for node in range(nodes)}
    return begun(idle_machine(every, {0: {"memory": GIB}}), Assignments())


def pod(uid: str = "pod", /, **gibibytes: int) -> PodRequest:
    """Make a guaranteed pod: containers by name; `init` ends, `sidecar` does not."""
    return PodRequest(
        uid,
        tuple(
            ContainerRequest(name, {"memory": size * GIB}, name.startswith("init"), name.startswith("sidecar"))
            for name, size in gibibytes.items()
        ),
    )
