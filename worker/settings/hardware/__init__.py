"""Settings of exclusive hardware."""
