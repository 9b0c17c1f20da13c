"""Decisions about the node: image collection, admission of pods."""
