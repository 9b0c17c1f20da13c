"""What is decided, durably and deterministically. See README.md."""
