"""What worker and poller answer over HTTP on this machine: /healthz, /metrics, and the UI's decode."""
