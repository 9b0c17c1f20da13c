"""Every side effect of a pod's life, each idempotent, against the container runtime and the node's file system."""
