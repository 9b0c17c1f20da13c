"""The node's own object in the API server: registered, kept up to date, made anew when it was deleted. See ../README.md."""
