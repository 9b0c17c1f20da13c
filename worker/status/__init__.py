"""A pod's status on its way back to the API server. See README.md."""
