"""Tests of the client of systemd."""
