"""Which containers start, restart and stop, in which order and when."""
