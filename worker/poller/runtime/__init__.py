"""The container runtime as the poller sees it: events, listings, health, and what is left of pods that are gone."""
