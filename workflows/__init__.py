"""Deterministic workflow code: what happens to a pod, and in `decide/` why. See README.md."""
