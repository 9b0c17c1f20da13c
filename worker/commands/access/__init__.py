"""What commands share: exit codes, the connection to Temporal, which pod is meant, the node as its files show it."""
