"""The daemon processes: worker, poller and node. The only place that wires everything together."""
