"""What is written on disk about CSI volumes."""
