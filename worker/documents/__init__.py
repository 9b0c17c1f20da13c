"""Bounded reading of YAML and JSON documents, and printing of untrusted text."""
