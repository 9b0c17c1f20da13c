"""Builds the CRI configuration of containers and sandboxes from a pod's JSON: pure functions."""
