"""Tests of the poller on a node of a cluster."""
