"""How worker and poller can be watched: metrics for Prometheus, spans for OpenTelemetry."""
