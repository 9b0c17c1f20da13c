"""Create, start, stop, resize and remove containers."""
