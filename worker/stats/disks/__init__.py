"""Disk usage: file systems, images, writable layers, logs, volumes."""
