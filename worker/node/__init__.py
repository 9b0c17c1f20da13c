"""The node process: the Node object, its lease and certificates. See README.md."""
