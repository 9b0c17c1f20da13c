"""Which NUMA nodes a container's CPUs, memory and devices come from."""
