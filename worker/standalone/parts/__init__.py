"""Fetches the programs of a standalone node that are missing on this machine."""
