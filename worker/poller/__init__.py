"""The poller: what pods should run here, and what has changed, told to their workflows. See README.md."""
