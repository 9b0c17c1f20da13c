"""Events of the API for this node's pods and for the node. See README.md."""
