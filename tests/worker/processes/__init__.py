"""Tests of the wired processes."""
