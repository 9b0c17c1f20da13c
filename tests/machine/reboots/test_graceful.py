"""Do pods end before their machine does, in groups, and are static ones there again after the boot?"""

from typing import Final

import pytest

from tests.machine.machine import Machine
from tests.machine.reboots.pods import LOG, UP_SECONDS, start, until, until_clean, until_pods_run

CONFIGURATION: Final = "/etc/kubelet.yaml"
PERIODS: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
shutdownGracePeriod: 300s
shutdownGracePeriodCriticalPods: 60s
"""
DROP_IN: Final = "/etc/systemd/logind.conf.d/99-kubelet.conf"
DELAY: Final = "busctl get-property org.freedesktop.login1 /org/freedesktop/login1 org.freedesktop.login1.Manager InhibitDelayMaxUSec"
STATE: Final = "/var/lib/tempolet/node/graceful_node_shutdown_state"
ENDED: Final = "all pods have ended; the machine may go down"


@pytest.mark.machine
def test_pods_end_before_their_machine(machine: Machine) -> None:
    """The reboot waits for them, and their containers end by SIGTERM; a purge takes our drop-in with it."""
    machine.put(PERIODS.encode(), CONFIGURATION)
    start(machine, f"--config {CONFIGURATION}")
    until(lambda: "kubelet" in machine.run("systemd-inhibit --list --no-legend").stdout, "the lock is held")
    assert "InhibitDelayMaxSec=300" in machine.run(f"cat {DROP_IN}").stdout
    assert machine.run(DELAY).stdout == "t 300000000\n"
    machine.reboot()
    until_pods_run(machine)
    until_clean(machine)
    told = machine.run(f"{LOG} | grep -c '{ENDED}'").stdout
    assert told == "1\n", told
    state = machine.run(f"cat {STATE}").stdout
    assert "startTime" in state
    assert "0001-01-01" not in state, state
    until(lambda: "kubelet" in machine.run("systemd-inhibit --list --no-legend").stdout, "the lock is held again")
    machine.run("tempolet down --purge", UP_SECONDS)
    assert machine.run(f"ls {DROP_IN}", check=False).code != 0
