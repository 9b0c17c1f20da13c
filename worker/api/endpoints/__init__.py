"""The handlers of the node's API, one endpoint a file."""
