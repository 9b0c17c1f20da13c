"""The daemon processes: worker, poller and node. Only here are their parts wired together."""
