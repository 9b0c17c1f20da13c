"""What the worker does periodically for CSI volumes: it publishes and expands them, and asks how many the node may have."""
