"""The registration of node plugins, one folder per version."""
