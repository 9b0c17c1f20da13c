"""What activities need to run safely: running actions, errors, heartbeats, locks, single flight, programs."""
