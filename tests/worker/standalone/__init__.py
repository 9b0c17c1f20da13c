"""Tests of the parts of a standalone node that need neither root nor a runtime."""
