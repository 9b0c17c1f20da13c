"""Tests of worker/stats."""
