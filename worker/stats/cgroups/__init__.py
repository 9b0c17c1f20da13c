"""Cgroups: which there are, whose they are, and their usage."""
