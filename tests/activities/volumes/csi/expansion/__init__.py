"""Tests of the expansion of CSI volumes."""
