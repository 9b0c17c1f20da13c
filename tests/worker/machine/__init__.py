"""Tests of `worker/machine`."""
