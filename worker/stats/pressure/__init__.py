"""What evictions are decided by: the node's signals, and what pods use."""
