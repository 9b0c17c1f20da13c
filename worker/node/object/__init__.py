"""The Node object: registered, kept up to date, created again if deleted. See ../README.md."""
