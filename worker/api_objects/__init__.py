"""The objects of a cluster's node: ConfigMaps, Secrets, tokens and what else its pods refer to, from the API server."""
