"""Machines as their sysfs shows them."""

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Shape:
    """A machine; threads of a core are as far apart as Linux numbers them: all first threads come first."""

    sockets: int = 1
    nodes_per_socket: int = 1
    cores_per_node: int = 2
    threads: int = 1
    cores_per_cache: int = 0
    """0: one cache for each NUMA node."""
    numa: bool = True

    @property
    def cores(self) -> int:
        """How many cores there are."""
        return self.sockets * self.nodes_per_socket * self.cores_per_node


def machine(root: Path, shape: Shape, online: str = "") -> tuple[Path, Path]:
    """Write the files of a machine; returns its folder and its cpuinfo."""
    system, cpuinfo = root / "system", root / "cpuinfo"
    (system / "cpu").mkdir(parents=True)
    if online:
        (system / "cpu/online").write_text(f"{online}\n")
    lines = []
    for cpu in range(shape.cores * shape.threads):
        core = cpu % shape.cores
        node = core // shape.cores_per_node
        socket = node // shape.nodes_per_socket
        folder = system / f"cpu/cpu{cpu}"
        (folder / "topology").mkdir(parents=True)
        (folder / "topology/core_id").write_text(f"{core % (shape.nodes_per_socket * shape.cores_per_node)}\n")
        (folder / "topology/physical_package_id").write_text(f"{socket}\n")
        per_cache = shape.cores_per_cache or shape.cores_per_node
        cache = core // per_cache
        sharing = [one for one in range(shape.cores * shape.threads) if one % shape.cores // per_cache == cache]
        for index, (level, number, shared) in enumerate([(1, cpu, [cpu]), (3, cache, sharing)]):
            (at := folder / f"cache/index{index}").mkdir(parents=True)
            (at / "level").write_text(f"{level}\n")
            (at / "id").write_text(f"{number}\n")
            (at / "shared_cpu_map").write_text(f"{sum(1 << one for one in shared):08x}\n")
        if shape.numa:
            (system / f"node/node{node}").mkdir(parents=True, exist_ok=True)
            (system / f"node/node{node}/cpu{cpu}").symlink_to(folder)
        lines.append(f"processor\t: {cpu}\nphysical id\t: {socket}\ncore id\t\t: {core}\n\n")
    cpuinfo.write_text("".join(lines))
    return system, cpuinfo
