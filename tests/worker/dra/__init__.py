"""Tests of `worker/dra`."""
