"""`tempolet upgrade`: switches a node's processes to this release, and back if they do not work. See docs/operations.md."""
