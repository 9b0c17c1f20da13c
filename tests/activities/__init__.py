"""Tests of activities/: what needs no runtime; tests/node has the rest."""
