"""Files, mounts and paths, handled safely where others may write beside us."""
