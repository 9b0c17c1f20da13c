"""Formats that cross a process, a socket or a history. See README.md."""
