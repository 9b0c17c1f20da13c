"""Kubernetes' own arithmetic on API objects: pure, and shared by `workflows/decide/` and `activities/`."""
