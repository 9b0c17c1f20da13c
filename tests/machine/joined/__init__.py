"""A booted machine as a node of a cluster whose control plane and Temporal run on this machine."""
