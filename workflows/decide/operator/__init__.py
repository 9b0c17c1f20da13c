"""What an operator may ask: stops, evictions, skipped back-offs, ephemeral containers."""
