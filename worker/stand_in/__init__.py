"""Leads pods in the worker's own process while Temporal is away."""
