"""What activities need to run safely: errors, heartbeats, locks, single flight, programs."""
