"""Machines for the tests of exclusive CPUs."""

from workflows.decide.cpus.topology import Core, Topology


def machine(sockets: int = 1, cores: int = 4, threads: int = 2, caches: int = 1) -> Topology:
    """Make a machine with one NUMA node a socket; the second threads have the higher numbers, as Linux counts them."""
    every = sockets * cores
    return Topology.discover(
        {
            socket: [
                Core(
                    tuple(socket * cores + core + thread * every for thread in range(threads)),
                    socket,
                    (socket * caches + core * caches // cores,),
                )
                for core in range(cores)
            ]
            for socket in range(sockets)
        },
        cpus=every * threads,
        sockets=sockets,
    )
