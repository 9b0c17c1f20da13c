"""Tests of `activities/clients/dra`."""
