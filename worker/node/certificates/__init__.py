"""The node's own certificates: asked of the API server, kept on disk, renewed in time. See ../README.md."""
