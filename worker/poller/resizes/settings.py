"""The node's settings that make a resize infeasible."""

from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.node_capacity import swap_accounted
from worker.daemon.config import NodeConfig
from worker.settings.kubelet.feature_gates import POD_LEVEL_RESIZES_GATE
from workflows.decide.resources.resizes import ResizeSettings


def resize_settings(config: NodeConfig, hierarchies: Hierarchies | None = None) -> ResizeSettings:
    """Collect them; reads whether the kernel accounts swap."""
    found = hierarchies or Hierarchies.of_this_node()
    swaps = config.memory.limited_swap and found.v2 is not None and swap_accounted(found)
    return ResizeSettings(
        pod_level=config.feature_gates.enabled(POD_LEVEL_RESIZES_GATE),
        limited_swap=swaps,
        static_cpu=config.cpu_manager.static is not None,
        static_memory=config.memory_manager.idle is not None,
    )
