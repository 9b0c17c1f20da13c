"""Volumes of CSI drivers: who has registered, and how a volume comes to a pod and goes."""
