"""Cgroups: which there are, whose they are, and what each has used."""
