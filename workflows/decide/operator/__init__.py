"""What an operator asked for: stops, evictions, skipped back-offs, ephemeral containers."""
