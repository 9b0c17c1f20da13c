"""The benchmark with nodes of a real cluster: pods come from an API server, and count as running once it says so."""
