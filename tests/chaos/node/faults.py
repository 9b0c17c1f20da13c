"""The table of faults: what each does (`strikes/`), when it may strike, where it plays, and what it may change.

The moment, the kind and the length of a fault are drawn from the scenario's seed.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final

from tests.chaos.node.scene import PHASES, Place, Scene
from tests.chaos.node.strikes import api_server, clock, csi_driver, disk, killed, machine, network, runtime, temporal


@dataclass(frozen=True, slots=True)
class Fault:
    """A row of the table."""

    happens: Callable[[Scene], AbstractContextManager[None]]
    phases: tuple[str, ...] = PHASES
    """When it can strike."""
    restarts: bool = False
    """A container may be restarted by it, since it ended, or its start failed."""
    ends_pods: bool = False
    """It ends the containers of any pod."""
    place: Place = Place.STANDALONE
    csi: bool = False
    """One of the pods has a volume of a CSI driver."""
    in_tests: bool = True
    """`make test` plays it, too, not only `make chaos`."""


FAULTS: Final[dict[str, Fault]] = {
    "worker-killed-at-a-call": Fault(killed.worker_killed_at_a_call),
    "worker-killed-again-and-again": Fault(killed.worker_killed_again_and_again, in_tests=False),
    "poller-killed": Fault(killed.poller_killed),
    "everything-killed": Fault(killed.everything_killed),
    "temporal-killed": Fault(killed.temporal_killed),
    "temporal-suspended": Fault(killed.temporal_suspended, in_tests=False),
    "worker-killed-while-temporal-is-away": Fault(killed.worker_killed_while_temporal_is_away),
    "worker-suspended": Fault(killed.worker_suspended, in_tests=False),
    "containerd-suspended": Fault(runtime.containerd_suspended, restarts=True, in_tests=False),
    "containerd-killed": Fault(runtime.containerd_killed, restarts=True),
    "shim-killed": Fault(runtime.shim_killed, restarts=True, ends_pods=True),
    "pause-killed": Fault(runtime.pause_killed, restarts=True, ends_pods=True, in_tests=False),
    "runtime-refuses": Fault(runtime.runtime_refuses, restarts=True),
    "runtime-slow": Fault(runtime.runtime_is_slow, restarts=True, in_tests=False),
    "reply-lost": Fault(runtime.reply_lost, restarts=True),
    "cni-add-fails": Fault(network.cni_add_fails, phases=("starting",)),
    "cni-add-partial": Fault(network.cni_add_is_partial, phases=("starting",), in_tests=False),
    "cni-add-hangs": Fault(network.cni_add_hangs, phases=("starting",)),
    "cni-del-fails": Fault(network.cni_del_fails, phases=("deleting",)),
    "cni-del-hangs": Fault(network.cni_del_hangs, phases=("deleting",), in_tests=False),
    "cni-unconfigured": Fault(network.cni_unconfigured, phases=("starting", "deleting"), in_tests=False),
    "csi-driver-killed": Fault(csi_driver.csi_driver_killed, csi=True),
    "disk-full": Fault(disk.disk_full),
    "disk-read-only": Fault(disk.disk_read_only, in_tests=False),
    "files-corrupt": Fault(disk.files_corrupt),
    "descriptors-exhausted": Fault(machine.descriptors_exhausted, in_tests=False),
    "addresses-exhausted": Fault(machine.addresses_exhausted, phases=("starting",), in_tests=False),
    "network-namespace-removed": Fault(
        machine.network_namespace_removed, restarts=True, ends_pods=True, in_tests=False
    ),
    "temporal-errs": Fault(temporal.temporal_errs, place=Place.FAR_FROM_TEMPORAL),
    "temporal-slow": Fault(temporal.temporal_slow, place=Place.FAR_FROM_TEMPORAL, in_tests=False),
    "temporal-connections-break": Fault(
        temporal.temporal_connections_break, place=Place.FAR_FROM_TEMPORAL, in_tests=False
    ),
    "clock-forward": Fault(clock.clock_forward, place=Place.OWN_CLOCK),
    "clock-back": Fault(clock.clock_back, place=Place.OWN_CLOCK, in_tests=False),
    "api-server-away": Fault(api_server.api_server_away, place=Place.CLUSTER),
    "api-server-flaps": Fault(api_server.api_server_flaps, place=Place.CLUSTER, in_tests=False),
}
