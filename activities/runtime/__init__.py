"""Read the runtime: pod facts, ends, termination messages."""
