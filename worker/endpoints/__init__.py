"""The local HTTP endpoints of worker and poller: /healthz, /metrics, and the UI's decode; unix sockets for root alone."""
