"""What every activity needs to run safely: errors, heartbeats, locks, shared tasks, programs."""
