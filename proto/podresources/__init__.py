"""Who holds which devices, processors and memory of a node, one folder a version."""
