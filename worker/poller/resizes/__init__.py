"""Resizes of pods: what each was granted, and which of those that wait is granted next."""
