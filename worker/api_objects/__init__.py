"""The objects that pods of a cluster's node refer to, from the API server. See README.md."""
