"""The loops of a pod and of a node, without an engine: a driver carries out what they decide. See ../README.md."""
