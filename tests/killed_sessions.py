"""What a killed session of this slot has left: the slot's lock shows that it has ended, so its bridge and cgroup are ours."""

from worker.standalone.containerd import Containerd
from worker.standalone.machine.links import LINKS
from worker.standalone.machine.owner_marks import mark_bridge, mark_cgroup


def remove_leftovers(daemon: Containerd) -> None:
    """Mark bridge and cgroup as this containerd's, whoever owned them, and remove them."""
    if (LINKS / daemon.network.bridge).exists():
        mark_bridge(daemon.network.bridge, daemon.owner, daemon.network.subnet)
    mark_cgroup(daemon.cgroup, daemon.owner)
    daemon.clean()
