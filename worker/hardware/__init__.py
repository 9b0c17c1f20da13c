"""Exclusive hardware of this machine: what is given to which container."""
