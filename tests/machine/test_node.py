"""Does a node run as on the machines people have: cgroup v2, under systemd?"""

from pathlib import Path

import pytest

from tests.machine.machine import Machine

UP_SECONDS = 600.0
LEFT = """
findmnt -rno TARGET | sort
ip -brief link | awk '{print $1}' | sort
ls /run/netns 2>/dev/null
nft list ruleset | grep -E 'tempolet|CNI-|10[.]213[.]'
find /sys/fs/cgroup -type d | grep -iE 'tempolet|kubepods' | sort
ps -eo args | grep -E '[t]empolet|[c]ontainerd|[t]emporal ' | sort
"""
"""What `down` must leave as it was: mounts, links, namespaces, rules, cgroups and processes.

iptables makes an empty chain FORWARD at its first use and keeps it, so only rules are compared.
"""


@pytest.mark.machine
def test_up_runs_a_pod_and_down_leaves_nothing(shared_machine: Machine) -> None:
    """With the containerd that Debian has."""
    before = shared_machine.run(LEFT, check=False).stdout.splitlines()
    shared_machine.run("tempolet up /opt/tempolet/examples/hello.yaml", UP_SECONDS)
    try:
        pods = shared_machine.run("tempolet pods").stdout
        assert "hello-machine" in pods
        assert "Running" in pods
        container = _cgroup_of_the_container(shared_machine)
        assert shared_machine.run(f"cat {container}/memory.max").stdout == f"{64 << 20}\n"
        assert int(shared_machine.run(f"cat {container}/cpu.weight").stdout) > 0
    finally:
        shared_machine.run("tempolet down --purge", UP_SECONDS)
    assert shared_machine.run(LEFT, check=False).stdout.splitlines() == before


def _cgroup_of_the_container(machine: Machine) -> Path:
    pid = machine.run("pgrep -f 'httpd -p 8080'").stdout.split()[0]
    return Path("/sys/fs/cgroup") / machine.run(f"cat /proc/{pid}/cgroup").stdout.strip().removeprefix("0::/")
