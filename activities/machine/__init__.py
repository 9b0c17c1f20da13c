"""The machine: cgroups, capacity, memory protection, the id of its boot."""
