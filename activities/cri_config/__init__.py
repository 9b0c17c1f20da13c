"""Build the CRI's container and sandbox configuration from a pod: pure functions."""
