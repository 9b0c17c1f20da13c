"""Which new pods this node takes, and which pods are stopped so that a critical one has room."""
