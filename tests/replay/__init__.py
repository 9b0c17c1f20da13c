"""Recorded histories: golden files that every later version of the workflow code must replay."""
