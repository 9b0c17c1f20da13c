"""Hands pods back to Temporal: the story of the outage first, then the state."""
