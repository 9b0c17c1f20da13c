"""Volumes: what mounts and unmounts them, one file a type."""
