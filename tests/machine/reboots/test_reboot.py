"""Does a node of `tempolet up` come back by itself: after a crash of any of its processes, after a reboot, and after a power loss?"""

from typing import Final

import pytest

from tests.machine.machine import Machine
from tests.machine.reboots.pods import HISTORY, RESTARTED, UP_SECONDS, start, until, until_clean, until_pods_run

ROLES: Final = ("containerd", "temporal", "worker", "poller")
UNITS: Final = "ls /etc/systemd/system /etc/systemd/system/multi-user.target.wants | grep tempolet-up"
CONFIGURATION: Final = "/etc/tempolet.yaml"
EVERY_COMMIT: Final = """\
apiVersion: tempolet.dev/v1alpha1
kind: TempoletConfiguration
history: {databaseSync: Full}
"""
"""So that the power loss takes nothing that the history has told; `test_power_loss` has the default."""


@pytest.mark.machine
def test_a_node_comes_back_by_itself(machine: Machine) -> None:
    """Each process after kill -9, without a restart of the pod; after a reboot and a power loss everything, with one restart each."""
    machine.put(EVERY_COMMIT.encode(), CONFIGURATION)
    start(machine, f"--tempolet-config {CONFIGURATION}")
    for role in ROLES:
        _kill(machine, role)
    until_pods_run(machine, restarts=0)
    machine.reboot()
    until_pods_run(machine, restarts=1)
    until_clean(machine)
    assert RESTARTED in machine.run(HISTORY).stdout
    machine.pull_plug()
    machine.boot()
    until_pods_run(machine, restarts=2)
    until_clean(machine)
    told = machine.run(HISTORY).stdout
    assert told.count(RESTARTED) == 2, told
    again = machine.run(f"tempolet up --tempolet-config {CONFIGURATION}", UP_SECONDS).stdout
    assert again.count("runs already") == len(ROLES), again
    machine.run("tempolet down --purge", UP_SECONDS)
    assert machine.run(UNITS, check=False).stdout == ""
    assert machine.run("ls /var/lib/tempolet /run/tempolet", check=False).stdout == ""
    assert machine.run("systemctl --failed --no-legend").stdout == ""


def _kill(machine: Machine, role: str) -> None:
    """Kill -9 a process and wait for another one."""
    show = f"systemctl show -P MainPID tempolet-up-{role}.service"
    before = machine.run(show).stdout
    machine.run(f"kill -9 {before}")
    until(lambda: machine.run(show).stdout not in (before, "0\n"), f"another {role}")
