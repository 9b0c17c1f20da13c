"""Which CPUs a container has to itself."""
