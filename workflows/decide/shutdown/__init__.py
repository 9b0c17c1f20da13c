"""Graceful node shutdown, as the kubelet decides it."""
