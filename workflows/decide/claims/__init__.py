"""Dynamic resource allocation: which claims of a pod are prepared, by which drivers, and who uses them; pure."""
