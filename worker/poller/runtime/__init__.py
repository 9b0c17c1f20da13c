"""What the container runtime tells, compared with what the pods know: events, listings, and what nobody cares for."""
