"""Activities: every side effect on the container runtime, the node's files and the API server. All are idempotent."""
