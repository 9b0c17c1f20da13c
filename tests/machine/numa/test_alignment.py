"""Does a pod get CPUs and memory of one NUMA node on a machine with two, and keep them whatever is killed?

What is decided is compared with the kubelet's own code (`tests/oracles`); here the kernel says what is in force.
"""

import json
import re
from collections.abc import Callable
from typing import Any, Final

import pytest

from tests.machine.hardware import Hardware
from tests.machine.machine import Machine
from tests.machine.reboots.pods import UP_SECONDS, pods, until, until_pods_run

CONFIGURATION: Final = """\
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
cpuManagerPolicy: static
cpuManagerPolicyOptions: {full-pcpus-only: "true"}
cpuManagerReconcilePeriod: 1s
memoryManagerPolicy: Static
topologyManagerPolicy: single-numa-node
reservedSystemCPUs: 0,1
systemReserved: {memory: 412Mi}
evictionHard: {memory.available: 100Mi}
reservedMemory:
- numaNode: 0
  limits: {memory: 512Mi}
"""
"""The first core is the system's."""
ALIGNED: Final = """\
apiVersion: v1
kind: Pod
metadata: {name: aligned, namespace: default}
spec:
  terminationGracePeriodSeconds: 1
  containers:
  - name: main
    image: docker.io/library/busybox:1.37
    imagePullPolicy: IfNotPresent
    command: [sh, -c, "trap 'exit 1' TERM; sleep 36000 & wait"]
    resources:
      limits: {cpu: "2", memory: 64Mi}
"""
HARDWARE: Final = Hardware(memory_mib=3072, sockets=2, cores=2, threads=2, numa_nodes=2)
"""Eight CPUs: node 0 has 0-3, node 1 has 4-7; 0 and 1 are threads of one core, and so on."""
STATE: Final = "/var/lib/tempolet/node"
COMMANDS: Final = {"main": "^sh -c trap .exit 1. TERM", "web": "^sh -c mkdir -p /tmp/www"}
"""What the first process of each container runs."""
SERVICES: Final = ("worker", "poller", "temporal", "containerd")


@pytest.mark.machine
def test_a_pod_is_aligned_and_stays_so(make_machine: Callable[[Hardware], Machine]) -> None:
    """On two threads of one core and memory of their node, over kill -9 of everything, a restart of the container and a reboot."""
    machine = make_machine(HARDWARE)
    machine.boot()
    machine.put(CONFIGURATION.encode(), "/etc/kubelet.yaml")
    machine.put(ALIGNED.encode(), "/run/aligned.yaml")
    machine.run(
        "tempolet up /opt/tempolet/examples/hello.yaml /run/aligned.yaml --config /etc/kubelet.yaml", UP_SECONDS
    )
    until_pods_run(machine, restarts=0)
    until(lambda: "0-1" in kernel(machine, "web")["cpuset.cpus"], "the other pod has the rest")

    given, other = kernel(machine, "main"), kernel(machine, "web")
    core = cpus(given["cpuset.cpus"])
    assert core in ({2, 3}, {4, 5}, {6, 7}), given
    assert given["cpuset.mems"] == str(min(core) // 4)
    assert given["cpu.max"].startswith("max "), "no quota"
    assert cpus(other["cpuset.cpus"]) == set(range(8)) - core
    (written,) = state(machine, "cpu_manager_state")["entries"].values()
    assert cpus(written["main"]) == core
    (written,) = state(machine, "memory_manager_state")["entries"].values()
    (block,) = written["main"]
    assert (block["numaAffinity"], block["size"]) == ([min(core) // 4], 64 << 20)
    told = " ".join(machine.run("tempolet explain default/aligned-machine").stdout.split())
    assert (
        f"container main was aligned to NUMA node {min(core) // 4}: topologyManagerPolicy is single-numa-node" in told
    )

    for service in SERVICES:
        machine.run(f"systemctl kill --signal=KILL --kill-whom=main tempolet-up-{service}.service")
    until_pods_run(machine, restarts=0)
    assert kernel(machine, "main") == given

    machine.run(f"kill -9 {process(machine, 'main')}")
    until(lambda: restarts(machine) == 1, "the container runs again")
    assert kernel(machine, "main") == given

    machine.reboot()
    until(lambda: restarts(machine) == 2, "the container runs again after a reboot")
    assert kernel(machine, "main") == given


def kernel(machine: Machine, container: str) -> dict[str, str]:
    """Return what is in force for a container."""
    files = ("cpuset.cpus", "cpuset.mems", "cpu.max", "memory.max")
    cgroup = machine.run(f"cat /proc/{process(machine, container)}/cgroup").stdout.strip().removeprefix("0::")
    told = machine.run(f"cd /sys/fs/cgroup{cgroup} && head -n 1 {' '.join(files)}").stdout
    return dict(re.findall(r"==> (\S+) <==\n(.*)", told))


def process(machine: Machine, container: str) -> int:
    """Return the id of a container's first process."""
    return int(machine.run(f"pgrep --oldest --full '{COMMANDS[container]}'").stdout)


def state(machine: Machine, file: str) -> dict[str, Any]:
    """Read one of the kubelet's state files."""
    read: dict[str, Any] = json.loads(machine.get(f"{STATE}/{file}"))
    return read


def cpus(written: str) -> set[int]:
    """Read a list of CPUs as the kernel writes it."""
    ends = [part.split("-") for part in written.split(",")]
    return {cpu for one in ends for cpu in range(int(one[0]), int(one[-1]) + 1)}


def restarts(machine: Machine) -> int:
    """Return the pod's restarts; -1 while it is not ready."""
    found = [one for one in pods(machine) if one["name"] == "aligned-machine" and one["ready"]]
    return int(found[0]["restarts"]) if found else -1
