"""Tests of what every process needs: locks, logs, systemd."""
