"""The race as nodes of a real cluster: pods come from an API server, and count as running when it says so."""
