"""Tests of `activities/dra`."""
