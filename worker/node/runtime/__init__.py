"""The state of the container runtime, as the node's status shows it."""
