"""The node process: what a machine is to its cluster. See README.md."""
