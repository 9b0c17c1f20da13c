"""What the node keeps of its pods on its own disk, so that it can lead them without Temporal and tell afterwards what happened."""
