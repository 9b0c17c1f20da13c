"""The machine: cgroups, capacity, memory protection."""
