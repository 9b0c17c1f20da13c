"""Tests of the calls to workflows."""
