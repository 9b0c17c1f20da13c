"""Decisions about the node: image garbage collection, admission of pods."""
