"""Tickets: which runs of workflows this node has started, and a gate that lets nothing else have an activity run."""
