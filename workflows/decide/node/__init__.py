"""Decisions about the node: image garbage collection, admission of pods, what its kernel says of memory."""
