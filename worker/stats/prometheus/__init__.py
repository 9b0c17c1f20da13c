"""Prometheus: the families of the metrics endpoints, and the text that they are written in."""
