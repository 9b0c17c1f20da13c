"""The Container Storage Interface, one folder a version."""
