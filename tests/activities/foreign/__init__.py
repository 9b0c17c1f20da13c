"""Peers that the node asks and that answer to do harm."""
