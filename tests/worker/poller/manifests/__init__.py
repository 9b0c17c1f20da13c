"""Tests of static pods."""
