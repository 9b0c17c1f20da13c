"""Tests of the connection to Temporal, its payload keys and codec."""
