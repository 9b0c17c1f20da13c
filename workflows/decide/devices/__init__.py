"""Which devices of plugins a container gets."""
