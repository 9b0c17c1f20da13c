"""The Container Runtime Interface, one folder per version."""
