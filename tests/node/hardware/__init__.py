"""Tests of exclusive hardware on a node with real containerd."""
