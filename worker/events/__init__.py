"""Events of the API: what happened to this node's pods and to the node itself. See README.md."""
