"""Tests of `workflows/decide/claims`."""
