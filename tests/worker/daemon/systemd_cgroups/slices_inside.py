"""What `test_slices` runs beside a real systemd: pods' cgroups made, limited and removed; prints what it saw.

In a process of its own inside, because systemd accepts only connections from its own PID namespace.
"""

import json
import subprocess
import sys
import time
from typing import Final

from activities.clients.systemd.units import SystemdUnits
from activities.machine.cgroup_hierarchies import Hierarchies
from activities.machine.cgroup_names import CgroupDriver, CgroupNames, unit
from activities.machine.cgroups import Cgroups, CgroupSettings, pods_running
from proto.kubernetes.resources.qos import QosClass
from proto.kubernetes.resources.resources import PodResources

UID: Final = "8f07a796-8f24-4c3c-a258-1bae6e3f4c00"
MIB: Final = 1024 * 1024
LIMITED: Final = PodResources(cpu_shares=512, cpu_quota=12345, cpu_period=100000, memory_limit=64 * MIB)
RESIZED: Final = PodResources(cpu_shares=256, cpu_quota=50000, cpu_period=100000, memory_limit=32 * MIB)
NAMES: Final = CgroupNames.below("", CgroupDriver.SYSTEMD)
FILES: Final = {
    "cpu": ("cpu.shares", "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.weight", "cpu.max"),
    "memory": ("memory.limit_in_bytes", "memory.max"),
    "pids": ("pids.max",),
}


def limits(cgroup: str) -> dict[str, str]:
    """Read the limits that the kernel has for a cgroup."""
    found = {}
    places = Hierarchies.of_this_node()
    for controller, files in FILES.items():
        folder = (places.v2 or places.v1[controller]) / cgroup.lstrip("/")
        found.update({name: (folder / name).read_text().strip() for name in files if (folder / name).exists()})
    return found


def folders() -> list[str]:
    """List where slices of pods are."""
    return [str(one) for one in Hierarchies.of_this_node().folders(NAMES.path()) if one.is_dir()]


def systemctl(*arguments: str) -> str:
    """Run systemctl."""
    return subprocess.run(["systemctl", "--no-pager", *arguments], capture_output=True, text=True, check=False).stdout


def loaded() -> list[str]:
    """List the slices of pods that systemd knows."""
    lines = systemctl("list-units", "--all", "--plain", "--no-legend", "kubepods*").splitlines()
    return sorted(line.split()[0] for line in lines)


def main() -> None:
    """Go through the life of a pod, twice each step, with a daemon-reload after each."""
    seen: dict[str, object] = {"version": SystemdUnits().version()}
    cgroups = Cgroups(NAMES, settings=CgroupSettings(100))
    for _ in range(2):
        cgroups.make_tiers()
        pod = cgroups.make_pod(UID, QosClass.BURSTABLE, LIMITED)
    seen |= {"made": limits(pod), "tier": limits(NAMES.tier(QosClass.BURSTABLE)), "slices": loaded()}
    systemctl("daemon-reload")
    seen |= {"reloaded": limits(pod), "tier reloaded": limits(NAMES.tier(QosClass.BURSTABLE))}
    systemctl("daemon-reexec")
    seen["restarted"] = limits(pod)
    for growing in (True, False):
        cgroups.resize_pod(UID, QosClass.BURSTABLE, RESIZED, only_raise=growing)
        systemctl("daemon-reload")
        seen["grown" if growing else "resized"] = limits(pod)
    scope = ("systemd-run", "--scope", "--quiet", f"--slice={unit(pod)}", f"--unit=cri-containerd-{'5a' * 32}")
    command = ("sh", "-c", "echo inside; exec sleep 1000")
    with subprocess.Popen([*scope, *command], stdout=subprocess.PIPE) as container:
        assert container.stdout is not None
        container.stdout.readline()
        seen["running"] = pods_running(NAMES, Hierarchies.of_this_node())
        while cgroups.remove_pod(UID):
            time.sleep(0.01)  # as RemovePodDirectories tries again
        seen |= {"killed": container.wait(), "left": loaded(), "again": [str(one) for one in cgroups.remove_pod(UID)]}
    cgroups.remove_tiers()
    seen |= {"at last": loaded(), "folders": folders()}
    json.dump(seen, sys.stdout)


if __name__ == "__main__":
    main()
