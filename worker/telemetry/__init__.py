"""Metrics for Prometheus and spans for OpenTelemetry."""
