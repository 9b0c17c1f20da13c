"""What a volume type is, and the table of all types."""
