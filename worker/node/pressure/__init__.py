"""Resource pressure of the node, judged by the core (`workflows/decide/eviction/`)."""
