"""Calls to pod workflows: one at a time for each key, repeated until they succeed, rate limited."""
