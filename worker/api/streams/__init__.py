"""Exec, attach and port-forward: a client's upgraded connection and the runtime's streaming server, side by side."""
