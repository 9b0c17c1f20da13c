"""What all parts of the node process use: dependencies, metrics, health, threads, clock."""
