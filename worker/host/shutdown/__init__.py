"""Graceful node shutdown: pods end before the machine does. See README.md."""
