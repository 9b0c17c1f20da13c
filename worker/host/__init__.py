"""The worker process: hosts activities and workflows of one node."""
