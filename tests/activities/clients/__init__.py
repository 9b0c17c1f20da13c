"""What speaks outward, each by itself."""
