"""Truth tables of the pure core."""
