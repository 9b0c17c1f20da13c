"""The official node tests on a booted machine: cgroup v2, eight CPUs, two NUMA nodes."""
