"""Resource arithmetic: quantities, requests, limits, QoS."""
