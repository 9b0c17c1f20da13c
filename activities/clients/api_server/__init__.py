"""The Kubernetes API server: where it is and who we are (`kubeconfig`), one call (`api_server`), a collection followed (`reflector`)."""
