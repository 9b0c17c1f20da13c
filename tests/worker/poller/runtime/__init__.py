"""Tests of the runtime watch."""
