"""The API of device plugins, one folder per version."""
