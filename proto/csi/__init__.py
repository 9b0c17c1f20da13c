"""The Container Storage Interface, one folder per version."""
