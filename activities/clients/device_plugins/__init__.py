"""The client of device plugins."""
