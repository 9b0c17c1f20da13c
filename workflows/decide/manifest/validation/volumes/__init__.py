"""Rules about volumes."""
