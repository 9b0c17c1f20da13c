"""The defaults that Kubernetes sets in a manifest."""
