"""Where the machine's CPUs are, read from sysfs as cAdvisor reads them (utils/sysinfo, utils/sysfs, machine).

Read once at the start, if the configuration needs it. CPUs that are offline are left out.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

from worker.settings.hardware.numbered_folders import numbered_folders
from workflows.decide.cpus.cpu_sets import Cpus, parse_cpus
from workflows.decide.cpus.topology import Core, Topology

SYSTEM: Final = Path("/sys/devices/system")
CPUINFO: Final = Path("/proc/cpuinfo")
_SOCKET: Final = re.compile(r"^physical id\s*:\s*(\d+)", re.MULTILINE)
_UNCORE: Final = 3
"""The lowest level of a cache outside of cores."""
_Place = tuple[int, int]
"""A core's id and its socket: the ids repeat in each socket."""


def read_topology(system: Path = SYSTEM, cpuinfo: Path = CPUINFO) -> Topology:
    """Read it; raises OSError, and ValueError for a content that is none (TopologyError, too)."""
    online = _online(system / "cpu/online")
    every = numbered_folders(system / "cpu", "cpu")
    if nodes := numbered_folders(system / "node", "node"):
        found = {number: _cores(numbered_folders(folder, "cpu"), online) for number, folder in nodes.items()}
        count = sum(len(one.threads) for cores in found.values() for one in cores)
    else:
        found, count = _by_socket(every, online), len(every)
    return Topology.discover(found, cpus=count, sockets=_sockets(every, online, cpuinfo))


def _online(file: Path) -> Cpus | None:
    """Read which CPUs are online; None if the kernel cannot switch them off."""
    try:
        return parse_cpus(file.read_text().strip())
    except FileNotFoundError:
        return None


def _by_socket(cpus: dict[int, Path], online: Cpus | None) -> dict[int, list[Core]]:
    """Take each socket for a NUMA node, on a kernel without NUMA."""
    sockets: dict[int, dict[int, Path]] = defaultdict(dict)
    for number, path in cpus.items():
        if (socket := _number(path / "topology/physical_package_id")) is not None:
            sockets[socket][number] = path
    return {socket: _cores(some, online) for socket, some in sockets.items()}


def _cores(cpus: dict[int, Path], online: Cpus | None) -> list[Core]:
    threads: dict[_Place, list[int]] = defaultdict(list)
    for number, path in cpus.items():
        core, socket = _number(path / "topology/core_id"), _number(path / "topology/physical_package_id")
        if (online is None or number in online) and core is not None and socket is not None:
            threads[core, socket].append(number)
    cores = []
    for (_, socket), some in threads.items():
        caches = _uncore_caches(cpus[some[0]] / "cache", len(threads) * len(some))
        cores.append(Core(tuple(some), socket, caches))
    return cores


def _uncore_caches(folder: Path, threads_of_node: int) -> tuple[int, ...]:
    """List the caches that only some cores of a NUMA node share; none where the kernel does not tell, as on some machines with Arm."""
    found = []
    for index in sorted(folder.glob("index*")):
        level, number = _number(index / "level"), _number(index / "id")
        if level is None or number is None:
            return ()
        if level >= _UNCORE and _bits(index / "shared_cpu_map") != threads_of_node:
            found.append(number)
    return tuple(dict.fromkeys(found))


def _sockets(cpus: dict[int, Path], online: Cpus | None, cpuinfo: Path) -> int:
    try:
        told = set(_SOCKET.findall(cpuinfo.read_text()))
    except OSError:
        told = set()
    if told:
        return len(told)
    some: Iterable[Path] = (path for number, path in cpus.items() if online is None or number in online)
    return len({_number(path / "topology/physical_package_id") or 0 for path in some})


def _bits(file: Path) -> int:
    masks: Sequence[str] = file.read_text().strip().split(",")
    return sum(int(mask, 16).bit_count() for mask in masks)


def _number(file: Path) -> int | None:
    try:
        return int(file.read_text())
    except FileNotFoundError:
        return None
