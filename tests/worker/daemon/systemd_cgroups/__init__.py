"""Tests of pods in slices of a real systemd."""
