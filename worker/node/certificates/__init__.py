"""The node's certificates: requested from the API server, stored, rotated. See ../README.md."""
