"""The pod's states sync, terminating and terminated, and its admission."""
