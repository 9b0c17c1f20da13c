"""The Container Runtime Interface, one folder a version."""
