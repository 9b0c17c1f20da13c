"""Registry credentials: from pull secrets, the node's files and credential providers."""
