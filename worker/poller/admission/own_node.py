"""What a node knows of itself without a Node object: its admission before the API has answered, and on a node alone.

As in pkg/kubelet/kubelet.go GetCachedNode, which falls back on the initial node.
"""

from typing import Final

from activities.machine.node_capacity import huge_pages
from proto.kubernetes.resources.quantity import NANO, Quantity, bytes_quantity, parse_quantity
from proto.node_devices import read_node_devices
from worker.daemon.config import NodeConfig
from worker.machine.machine import own_labels
from worker.settings.reserved import allocatable_resources
from workflows.decide.node.node_admission import NodeFacts

_HUGE_PAGES: Final = "hugepages-"


class OwnNode:
    """The node as its configuration and its machine make it."""

    def __init__(self, config: NodeConfig) -> None:
        self._config = config

    async def read(self) -> None:
        """Know nothing newer."""

    def facts(self) -> NodeFacts:
        """Return what admission needs."""
        config = self._config
        return NodeFacts(
            name=config.node_name,
            labels={**(config.cluster.labels if config.cluster else {}), **own_labels(config.node_name)},
            taints=config.cluster.taints if config.cluster else (),
            allocatable=self._measured() | {"pods": parse_quantity(str(config.max_pods))},
        )

    def _measured(self) -> dict[str, Quantity]:
        """Return what the machine has for pods, huge pages beside memory; nothing if that cannot be told."""
        config = self._config
        try:
            left = allocatable_resources(config.reserved, config.eviction, config.root_dir)
            pages = {bytes_quantity(size): Quantity(total * NANO) for size, total in huge_pages().items()}
        except OSError:
            return {}
        of_pages = sum((one.nanos for one in pages.values()), 0)
        memory = Quantity(max(0, left["memory"].nanos - of_pages))
        devices = {
            name: Quantity(one.allocatable * NANO) for name, one in read_node_devices(self._config.root_dir).items()
        }
        return left | devices | {"memory": memory} | {f"{_HUGE_PAGES}{size}": amount for size, amount in pages.items()}
