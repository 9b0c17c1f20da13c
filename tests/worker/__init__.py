"""The questions asked of the wiring."""
