"""What a pod waits for and what would happen next, in sentences."""
