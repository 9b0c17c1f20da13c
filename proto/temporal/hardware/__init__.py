"""The types of exclusive hardware: what is given to whom."""
