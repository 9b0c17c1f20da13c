"""The part of the configuration of the node that activities read."""
