"""Tests of worker/poller."""
