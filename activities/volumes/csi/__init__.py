"""CSI volumes: staged on the node, published to pods, and the reverse."""
