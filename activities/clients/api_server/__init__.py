"""The Kubernetes API server: credentials (`kubeconfig`), one call (`api_server`), list and watch (`reflector`)."""
