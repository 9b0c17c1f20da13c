"""Node pressure in messages and histories: thresholds, what was measured, and for how long it has been so."""
