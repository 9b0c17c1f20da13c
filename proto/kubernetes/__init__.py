"""Kubernetes' own arithmetic on API objects: pure, and asked by `workflows/decide/` and `activities/` alike."""
