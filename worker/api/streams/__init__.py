"""Streams of exec, attach and port-forward between a client and the runtime's streaming server."""
