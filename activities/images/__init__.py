"""Find, pull and remove images."""
