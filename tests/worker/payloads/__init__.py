"""Tests of how payloads are written and read."""
