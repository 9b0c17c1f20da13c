"""The part of the node's configuration that activities read."""
