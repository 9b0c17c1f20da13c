"""What the node, its pods and containers use: read when somebody asks, kept by nobody. See README.md."""
