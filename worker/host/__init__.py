"""Loops of the worker process: pod cache, disk usage, log rotation, CSI plugins, image credentials."""
