"""Compares what Temporal has of each pod with what the node has: a database may have been lost, or be an older one."""
