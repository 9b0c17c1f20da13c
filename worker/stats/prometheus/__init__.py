"""The families of /metrics/cadvisor and /metrics/resource."""
