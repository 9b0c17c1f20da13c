"""Outages of Temporal at random moments of pods' lives, and what must be as without them."""
