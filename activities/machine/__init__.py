"""The node's cgroups, memory protection and capacity."""
