"""Volumes of clouds whose types Kubernetes has moved to CSI drivers: each becomes a volume of its driver; pure."""
