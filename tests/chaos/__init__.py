"""Faults at every moment, on a model of the runtime and on real containerd."""
