"""Writes the status of pods to the API server. See README.md."""
