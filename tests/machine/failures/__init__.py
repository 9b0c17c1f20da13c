"""What is kept of a machine whose test has failed."""
