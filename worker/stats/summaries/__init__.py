"""Builds /stats/summary."""
