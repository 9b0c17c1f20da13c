"""Dynamic resource allocation: a pod's claims are prepared before its sandbox, and undone after its containers."""
