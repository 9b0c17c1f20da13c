"""Container logs: files, rotation, reading, and links for log agents."""
