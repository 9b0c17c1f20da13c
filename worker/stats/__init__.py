"""Resource usage of the node, its pods and containers, read on request. See README.md."""
