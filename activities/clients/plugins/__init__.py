"""What the clients of this node's plugins share."""
