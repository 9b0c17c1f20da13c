"""Dynamic resource allocation with the official test driver of Kubernetes."""
