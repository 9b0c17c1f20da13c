"""How a plugin of the node makes itself known to the agent, one folder a version."""
