"""Tests of the loops of the worker process."""
