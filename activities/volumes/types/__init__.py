"""One file for each type of volume."""
