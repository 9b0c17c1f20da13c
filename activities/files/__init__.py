"""Files, mounts and paths, safe against concurrent changes by others."""
