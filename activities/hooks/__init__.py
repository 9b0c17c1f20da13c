"""Run lifecycle hooks."""
