"""Disks: file systems, images, layers, volumes, and what may not answer."""
