"""What the worker does periodically for CSI volumes: it publishes them again, and expands them."""
