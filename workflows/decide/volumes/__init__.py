"""A pod's volumes: mounts, refreshes, downward API contents."""
